"""Operation: a kind of work, such as a 2-D convolution, and everything that the package knows about it.

There is one subclass per file. It declares, in this order: features, derived sizes and rules; the words that name it in
text; similarity; the sizes that models read; operands and the NumPy reference; the drawing of random problems; and the
translation of a PyTorch layer into a problem.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import ProblemError

from ..expression import Expression
from .feature import Feature, Value
from .tensor import Tensor, Tensors

Shape: TypeAlias = tuple[int, ...]
Operands: TypeAlias = Mapping[str, NDArray[Any]]  # the inputs by name; float32 unless the operation declares others
MOST_OPERANDS = 3  # inputs that an entry of our kernels takes (`seqtune.kernels.launches.entry_arguments`)
FURTHER_OPERANDS = 1  # inputs of llvm kernels beyond these: their addresses are the last launch arguments


class ProblemView(Protocol):
    """The part of a Problem that its operation uses; `seqtune.kernels.problem` imports this module, not the reverse.
    """

    @property
    def type(self) -> str:
        """The name of the operation."""
        ...

    @property
    def features(self) -> tuple[tuple[str, Value], ...]:
        """Features by name, in the order of the operation's table."""
        ...

    def __getitem__(self, name: str) -> Value: ...

    def size(self, name: str) -> int:
        """The value of a feature or derived size. Raises ProblemError if it is unknown."""
        ...


class Operation:
    """A kind of work. Stateless: subclasses set the attributes and override the methods that apply to them."""

    name: str
    meaning: str
    features: tuple[Feature, ...] = ()  # empty: problems may have any named features
    derived: tuple[tuple[str, Expression], ...] = ()  # if a name occurs twice, the first with known inputs counts
    rules: tuple[tuple[Expression, str], ...] = ()  # (condition, reason shown to the user when it fails)
    elements: Mapping[str, str] = {}  # expressions of the elements of large tensors, by the words that name each

    example: str  # a problem as people write it

    # Text. `conv c=64 size=56` is a conv2d by its word, `c=64 size=56` by its hints.
    words: tuple[str, ...] = ()  # other words for `name`
    hints: frozenset[str] = frozenset()  # feature names that identify the operation if no word names it
    shorthands: Mapping[str, tuple[str, ...]] = {}  # one name for several features: pad -> pad_h, pad_w
    repeated: Mapping[str, str] = {}  # a feature not given -> the feature whose value it takes: s -> r

    # Similarity.
    sizes: tuple[str, ...] = ()  # features compared by their ratio; all others must be equal (see `kind`)

    # Models.
    quantities: tuple[str, ...] = ()  # sizes that the translator compares with the values of tuning parameters
    tiled_sizes: tuple[str, ...] = ()  # sizes that tiles divide; cost trees read the share wasted in the last tile
    sentence: Mapping[str, Mapping[str, Expression]] = {}  # the positions of the translator's source sentence, and the
    #             facts that share each, from names of problem and device and from earlier facts; without it every name
    #             has a position of its own

    # Running.
    has_output: bool = True  # whether `output` has a shape to compare
    constant: str | None = None  # the operand that kernels read packed: prepared once, before the timing

    results_by = ""  # the code of `results` in words, for messages: a reference function may hang or end its process
    agrees_with_default = False  # True: the outputs of the default configuration are the expected ones
    declares_tensors = False  # True: inputs and outputs have types and contents of their own (see `tensors`)

    # Sampling.
    least_flop: float = 0.0
    most_flop: float = math.inf  # of a drawn problem: a few hundred configurations are measured in a minute

    @cached_property
    def by_name(self) -> Mapping[str, Feature]:
        """Features by name."""
        return {feature.name: feature for feature in self.features}

    @cached_property
    def implied(self) -> frozenset[str]:
        """Features whose value may follow from other features."""
        return frozenset(name for name, _ in self.derived if name in self.by_name)

    @property
    def is_open(self) -> bool:
        """Whether problems may have any named features."""
        return not self.features

    def kind(self, problem: ProblemView) -> tuple[object, ...]:
        """The values that similar problems have in common: by default, every feature that is not a size."""
        return tuple((name, value) for name, value in problem.features if name not in self.sizes)

    def operands(self, problem: ProblemView) -> dict[str, Shape]:
        """Shapes of the inputs by name, in the order in which a kernel's entry takes them. Raises ProblemError."""
        raise ProblemError(f"{problem.type} has no reference to check against")

    def output(self, problem: ProblemView) -> Shape:
        """The shape of the result. Raises ProblemError."""
        raise ProblemError(f"{problem.type} has no reference to check against")

    def reference(self, problem: ProblemView, operands: Operands) -> NDArray[np.float64]:
        """The result computed by the definition, in float64 and in the shape of `output`. Raises ProblemError."""
        raise ProblemError(f"{problem.type} has no reference to check against")

    def tensors(self, problem: ProblemView) -> Tensors:
        """The inputs and outputs with their element types; the only output is `y`. Raises ProblemError."""
        dtype = str(dict(problem.features).get("dtype") or "fp32")
        return Tensors({name: Tensor(shape, dtype) for name, shape in self.operands(problem).items()},
                       {"y": Tensor(self.output(problem), dtype, None)})

    def results(self, problem: ProblemView, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]] | None:
        """The expected outputs by name, for these inputs and contents of outputs; only if `declares_tensors`.

        None: the outputs of the default configuration are the expected ones. Raises SeqtuneError.
        """
        return None

    def draw(self, generator: np.random.Generator) -> dict[str, Value]:
        """Draw the features of a random problem like those of real networks. They need not obey the rules.

        Raises ProblemError if the operation has no sampler.
        """
        raise ProblemError(f"{self.name} has no sampler")

    def is_module(self, module: Any) -> bool:
        """Whether a torch.nn module computes this operation, by its attributes alone: torch is not imported."""
        return False

    def features_of_module(self, module: Any, input_shape: Shape) -> dict[str, Value]:
        """The features of the problem that a torch.nn module solves on an input of this shape. Raises ProblemError."""
        raise ProblemError(f"a {type(module).__name__} is not a {self.name}")
