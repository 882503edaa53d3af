"""LabelModel: a translator trained on another tuner's choices with its vocabulary and boosted trees, in a folder.

The files are config.json (dimensions), model.safetensors (weights in 16 bits), seqtune.json (format, vocabulary,
kernels, tables of solvers, provenance, metrics) and trees.zlib (chains as plain arrays in a compressed safetensors
file). No content is trusted: shapes are compared before tensors are loaded, and the structure of trees is checked; a
wrong one raises CheckpointError. Prediction does not import torch.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from safetensors import SafetensorError
from safetensors.numpy import load, save

from seqtune.data.formats.miopen_terms import as_convnd
from seqtune.errors import CheckpointError, FormatError, KernelError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.miopen.solver import PREFIX, SOLVERS, find_solver
from seqtune.kernels.miopen.xdlops_tables import RowSolver
from seqtune.kernels.problem import Problem
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats, Task

from ..candidate import Candidate
from ..checkpoint_folder import About, CheckpointFolder, facts
from ..sequence import beam
from ..sequence.beam import WIDTH, NextWord, beam_search_many
from ..sequence.mixture import Average
from ..sequence.space_program import program_rows
from ..sequence.vocabulary import Vocabulary
from ..translator.dimensions import Dimensions
from ..translator.numpy_layers import Tensors
from ..trees.forest import UNREADABLE, Forest, of_numpy, read_forest
from .classifier_chain import ChainWords, KernelChain, ParameterClassifier, as_arrays
from .inputs import TREE_FEATURES
from .numpy_translator import NumpyTranslator, shapes
from .seen_problems import LARGEST as LARGEST_LEARNED
from .seen_problems import SeenProblems

if TYPE_CHECKING:
    from ..proposing import Evidence
    from .translator import LabelTranslator

MODEL_TYPE = "seqtune-label-translator"
TREES = "trees.zlib"
MOST_TREES = 300_000_000  # bytes, unpacked
_MOST_ROWS = 1000  # rows of one solver's table


class _Chain(BaseModel):
    """The chain of one kernel on one device in seqtune.json.

    `seen` holds, for each parameter, the indices of the values that training has seen; a single value needs no trees.
    `trees` is the number of the trees, which kernels of a group can share; `member` numbers the kernel in its group.
    """

    model_config = ConfigDict(extra="forbid")

    device: str = Field(max_length=200)
    kernel: str = Field(max_length=200)
    trees: int = Field(ge=0, le=1000)
    member: int | None = Field(ge=0, le=1000)
    seen: tuple[tuple[int, ...], ...] = Field(max_length=100)


class _About(About):
    """The content of seqtune.json."""

    tables: dict[str, tuple[str, ...]] = Field(max_length=100)
    chains: tuple[_Chain, ...] = Field(max_length=1000)
    weight: float = Field(ge=0, le=1)
    weights: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field(max_length=1000)
    learned: int = Field(ge=0, le=LARGEST_LEARNED)


@dataclass(eq=False)
class LabelModel:
    """A translator trained on the configurations that MIOpen chose, mixed with chains of boosted trees."""

    model_type: ClassVar[str] = MODEL_TYPE

    size: Dimensions
    state: Tensors  # the translator's tensors by name
    vocabulary: Vocabulary
    tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by solver: the rows of its table as text
    chains: Mapping[tuple[str, str], KernelChain] = field(default_factory=dict)  # by the names of device and kernel
    weight: float = 0.5  # of the chains in every word's log-probability, from 0 to 1
    weights: Mapping[str, float] = field(default_factory=dict)  # the same by kernel, where it differs
    learned: SeenProblems = field(default_factory=lambda: SeenProblems.of(np.zeros(0, np.uint64)))  # not evaluated on
    provenance: Mapping[str, JsonValue] = field(default_factory=dict)
    metrics: Mapping[str, JsonValue] = field(default_factory=dict)
    seed: int = 0

    @classmethod
    def load(cls, name: str | Path) -> Self:
        """Load a checkpoint from a folder, or by the name of a shipped one. Raises CheckpointError."""
        folder = CheckpointFolder.open(name, _About)
        about, vocabulary, size = folder.about, folder.vocabulary, folder.size
        wanted = {name: (list(shape), "F16") for name, shape in shapes(size).items()}
        tensors = folder.tensors(wanted | {"learned": ([about.learned], "U8")})
        learned = SeenProblems(tensors.pop("learned"))
        if about.learned & (about.learned - 1) or not about.learned:
            raise CheckpointError(f"{folder.path}: `learned` is {about.learned} bytes, not a power of two")
        checkpoint = cls(size, {name: tensor.astype(np.float32) for name, tensor in tensors.items()}, vocabulary,
                         about.tables, {}, about.weight, about.weights, learned, about.provenance, about.metrics,
                         about.seed)
        if not set(about.weights) <= {declared.name for declared in vocabulary.kernels}:
            raise CheckpointError(f"{folder.path}: `weights` names kernels that the vocabulary lacks")
        checkpoint.chains = _chains(folder.path / TREES, about.chains, checkpoint.kernels())
        return checkpoint

    def save(self, path: str | Path) -> Path:
        """Write the checkpoint to a folder, completely or not at all.

        Raises CheckpointError rather than overwrite a folder that is not a checkpoint.
        """
        shared = {id(chain.classifiers): chain.classifiers for chain in self.chains.values()}
        number = {key: index for index, key in enumerate(shared)}
        about = _About(
            **facts(self.vocabulary, self.provenance, self.metrics, self.seed),
            tables=dict(self.tables), weight=self.weight, weights=dict(self.weights), learned=len(self.learned.bits),
            chains=tuple(_Chain(device=device, kernel=kernel, trees=number[id(chain.classifiers)], member=chain.member,
                                seen=tuple(tuple(classifier.seen.tolist()) for classifier in chain.classifiers))
                         for (device, kernel), chain in self.chains.items()))
        tensors = {name: tensor.astype(np.float16) for name, tensor in self.state.items()}
        trees = {f"{index}/{column}/{part}": array for index, classifiers in enumerate(shared.values())
                 for column, classifier in enumerate(as_arrays(classifiers)) if isinstance(classifier.trees, Forest)
                 for part, array in classifier.trees.arrays().items()}
        with CheckpointFolder.writing(path, {**asdict(self.size), "model_type": MODEL_TYPE}, about) as fresh:
            (fresh / "model.safetensors").write_bytes(
                save({**tensors, "learned": self.learned.bits}, metadata={"format": "pt"}))
            if trees:
                (fresh / TREES).write_bytes(zlib.compress(save(trees), 6))
        return Path(path)

    def kernels(self) -> Mapping[str, Kernel]:
        """The kernels that the model configures by name, with the table rows of training. Raises CheckpointError."""
        return self._kernels

    @cached_property
    def _kernels(self) -> Mapping[str, Kernel]:
        kernels = {}
        for declared in self.vocabulary.kernels:
            name = declared.name.removeprefix(PREFIX)
            if name in SOLVERS and declared.parameters:
                solver = find_solver(name)
                if isinstance(solver, RowSolver) and name in self.tables:
                    try:
                        solver = solver.with_rows(solver.read(text) for text in self.tables[name][:_MOST_ROWS])
                    except (FormatError, KernelError) as error:
                        raise CheckpointError(f"the table of {name} is damaged: {error}") from None
                kernels[declared.name] = solver.kernel
        return kernels

    def kernels_for(self, problem: Problem, device: Device) -> tuple[Kernel, ...]:
        """The kernels of the model that solve the problem on the device."""
        return tuple(kernel for kernel in self.kernels().values() if kernel.why_not(problem, device) is None)

    @property
    def backends(self) -> tuple[str, ...]:
        """The backends of the devices that the model was trained for."""
        return self.vocabulary.backends

    @property
    def libraries(self) -> tuple[str, ...]:
        """The libraries of the model's kernels."""
        return self.vocabulary.libraries

    def check_kernels(self, kernels: Iterable[Kernel]) -> None:
        """Check that the vocabulary contains the kernels. Raises CheckpointError."""
        self.vocabulary.check(kernels)

    def knows(self, kernels: Iterable[Kernel]) -> bool:
        """Return whether the model was trained with a kernel of one of these names."""
        return not {kernel.name for kernel in kernels}.isdisjoint(declared.name for declared in self.vocabulary.kernels)

    def on(self, device: Device, kernels: Iterable[Kernel] = ()) -> Self:
        """The same checkpoint: it answers for all devices."""
        return self

    @property
    def ranker(self) -> None:
        """There are no trees that expect times: the choices of another tuner have none."""
        return None

    def expected(self, task: Task, numbers: Numbers) -> Floats:
        """NaN, which means unknown, for every configuration."""
        return np.full(len(numbers), np.nan)

    def task(self, problem: Problem, device: Device) -> Task:
        """The task in MIOpen's terms, with the kernels that the model knows or, without any, with all kernels.

        Raises KernelError, ProblemError.
        """
        problem = as_convnd(problem)
        return Task.of(problem, device, self.kernels_for(problem, device) or None, program_rows)

    def next_word(self) -> NextWord[Any]:
        """The source of next words for the beam search: the translator, mixed with the chains if there are any."""
        return self._words

    def propose(self, tasks: Sequence[Task], count: int, evidence: Evidence | None = None) -> list[list[Candidate]]:
        """The beam's most probable configurations of each task. Searching tasks together changes no number."""
        return [candidates for begin in range(0, len(tasks), beam.TASKS) for candidates in beam_search_many(
            self.next_word(), tasks[begin:begin + beam.TASKS], max(WIDTH, count), count)]

    @cached_property
    def network(self) -> LabelTranslator:
        """The translator as a torch module, as training and benchmarks need it."""
        from .translator import LabelTranslator

        return LabelTranslator.of_arrays(self.size, self.state, self.vocabulary)

    @cached_property
    def translator(self) -> NumpyTranslator:
        """The translator alone, without the chains."""
        return NumpyTranslator(self.size, self.state, self.vocabulary)

    @cached_property
    def _words(self) -> NextWord[Any]:
        words = self.translator
        if not self.chains:
            return words
        return Average([(words, 1 - self.weight), (ChainWords(self.chains, self.vocabulary), self.weight)],
                       {name: (1 - weight, weight) for name, weight in self.weights.items()})


def unpacked(path: Path, most: int = MOST_TREES) -> dict[str, NDArray[Any]]:
    """The arrays of a compressed safetensors file of at most `most` bytes, unpacked. Raises CheckpointError."""
    try:
        if path.stat().st_size > most:
            raise CheckpointError(f"{path} has {path.stat().st_size} bytes, more than any checkpoint's")
        packed = zlib.decompressobj()
        content = packed.decompress(path.read_bytes(), most)
        if packed.unconsumed_tail:
            raise CheckpointError(f"{path} unpacks to more than {most} bytes, more than any checkpoint's trees")
        return of_numpy(load(content))
    except (SafetensorError, OSError, ValueError, *UNREADABLE, zlib.error) as error:
        raise CheckpointError(f"{path} is no compressed safetensors file ({error!s:.100})") from None


def _chains(path: Path, about: Sequence[_Chain], kernels: Mapping[str, Kernel]) -> dict[tuple[str, str], KernelChain]:
    if not about:
        return {}
    arrays = unpacked(path)
    chains: dict[tuple[str, str], KernelChain] = {}
    loaded: dict[Any, tuple[ParameterClassifier, ...]] = {}
    for chain in about:
        name, kernel = chain.kernel, kernels.get(chain.kernel)
        if kernel is None or len(chain.seen) != len(kernel.parameters):
            raise CheckpointError(f"{path}: the trees of {name:.60} do not fit the parameters of that kernel")
        sizes = tuple(len(parameter.values) for parameter in kernel.parameters)
        key = (chain.trees, chain.member is None, chain.seen, sizes)
        if key not in loaded:
            loaded[key] = tuple(_classifier(path, arrays, chain, column, len(parameter.values))
                                for column, parameter in enumerate(kernel.parameters))
        chains[chain.device, name] = KernelChain(kernel, loaded[key], chain.member)
    return chains


def _classifier(path: Path, arrays: Mapping[str, NDArray[Any]], chain: _Chain, column: int,
                values: int) -> ParameterClassifier:
    seen = chain.seen[column]
    if list(seen) != sorted(set(seen)) or not seen or seen[0] < 0 or seen[-1] >= values:
        raise CheckpointError(f"{path}: the trees of {chain.kernel:.60} choose values that the kernel does not have")
    if len(seen) == 1:
        return ParameterClassifier(np.array(seen, np.int64), None)
    features = TREE_FEATURES + (chain.member is not None) + column
    forest = read_forest(path, arrays, f"{chain.trees}/{column}/", len(seen), features)
    return ParameterClassifier(np.array(seen, np.int64), forest)
