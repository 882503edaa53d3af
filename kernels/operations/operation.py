"""Operation: a kind of work, such as a 2-D convolution, and everything that is known of it.

One subclass per file. It answers, in this order: features, derived sizes and rules; the words that name it in text;
similarity; what models read of it; its operands and the NumPy reference; how random problems are drawn; and how a
PyTorch layer becomes a problem.
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

Shape: TypeAlias = tuple[int, ...]
Operands: TypeAlias = Mapping[str, NDArray[np.float32]]  # the inputs of a problem by name
MOST_OPERANDS = 3  # inputs that an entry of a kernel takes (see `seqtune.kernels.implementation.Phase`)


class Work(Protocol):
    """A Problem, as its operation sees it. (`seqtune.kernels.problem` imports this module.)"""

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
        """A feature or derived size that must be known. Raises ProblemError."""
        ...


class Operation:
    """A kind of work. Stateless: subclasses set the attributes and override the methods that they can answer."""

    name: str
    meaning: str
    features: tuple[Feature, ...] = ()  # empty: problems may have any named features
    derived: tuple[tuple[str, Expression], ...] = ()  # for a name given twice, the first with known inputs counts
    rules: tuple[tuple[Expression, str], ...] = ()  # (condition, the reason that a user reads when it fails)

    example: str  # a problem as people write it

    # Text. `conv c=64 size=56` is a conv2d by its word, `c=64 size=56` by its hints.
    words: tuple[str, ...] = ()  # other words for `name`
    hints: frozenset[str] = frozenset()  # names that tell the operation where no word does
    shorthands: Mapping[str, tuple[str, ...]] = {}  # one name for several features: pad -> pad_h, pad_w
    repeated: Mapping[str, str] = {}  # a feature not given -> the feature whose value it takes: s -> r

    # Similarity.
    sizes: tuple[str, ...] = ()  # features compared by their ratio; all others must be equal (see `kind`)

    # Models.
    quantities: tuple[str, ...] = ()  # sizes that the translator holds against the values of tuning parameters
    tiled_sizes: tuple[str, ...] = ()  # sizes that tiles cut, of which cost trees are shown the waste

    # Running.
    constant: str | None = None  # the operand that `Implementation.pack` prepares once, before the timing

    # Sampling.
    least_flop: float = 0.0
    most_flop: float = math.inf  # so that a few hundred configurations are measured in a minute

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

    def kind(self, problem: Work) -> tuple[object, ...]:
        """The part of a problem that near problems have in common: by default, every feature that is no size."""
        return tuple((name, value) for name, value in problem.features if name not in self.sizes)

    def operands(self, problem: Work) -> dict[str, Shape]:
        """Shapes of the inputs by name, in the order in which a kernel's entry takes them. Raises ProblemError."""
        raise ProblemError(f"{problem.type} has no reference to check against")

    def output(self, problem: Work) -> Shape:
        """The shape of the result. Raises ProblemError."""
        raise ProblemError(f"{problem.type} has no reference to check against")

    def reference(self, problem: Work, operands: Operands) -> NDArray[np.float64]:
        """The result by the definition, in float64, in the shape of `output`. Raises ProblemError."""
        raise ProblemError(f"{problem.type} has no reference to check against")

    def draw(self, generator: np.random.Generator) -> dict[str, Value]:
        """Features of a random problem like those of real networks; they need not obey the rules. Raises ProblemError.
        """
        raise ProblemError(f"{self.name} has no sampler")

    def is_module(self, module: Any) -> bool:
        """Whether a torch.nn module computes this operation. It is judged by attributes: torch is not imported."""
        return False

    def features_of_module(self, module: Any, input_shape: Shape) -> dict[str, Value]:
        """Features of the problem that a torch.nn module solves on an input of that shape. Raises ProblemError."""
        raise ProblemError(f"a {type(module).__name__} is no {self.name}")
