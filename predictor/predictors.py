"""Predictors: what proposes configurations without measuring, and which of them answers where nobody is named.

A predictor is a checkpoint, the file of a dispatcher, or one of UNTRAINED, which needs no file: a class that extends
`UntrainedPredictor`, and a line in that table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from seqtune.errors import CheckpointError, shown
from seqtune.kernels.files import reason
from seqtune.kernels.lookup import resolve

if TYPE_CHECKING:
    from seqtune.kernels.devices.device import Device
    from seqtune.kernels.kernel import Kernel
    from seqtune.kernels.problem import Problem
    from seqtune.kernels.task import Task

    from .candidate import Candidate
    from .checkpoint import Checkpoint
    from .proposing import Evidence

# Name of a checkpoint shipped with seqtune -> the backends that it predicts for
SHIPPED: dict[str, tuple[str, ...]] = {"default": ("llvm", "opencl"), "gpu": ("cuda", "triton"), "miopen": ("miopen",)}


@dataclass(frozen=True, slots=True)
class Untrained:
    """A predictor that needs no checkpoint."""

    factory: str  # "module:attribute" of a class without arguments that follows `TaskPredictor`
    backends: tuple[str, ...]  # for which it answers where no shipped checkpoint knows a kernel


SAFE_DEFAULT = "safe-default"
# Name that `--checkpoint` accepts -> a predictor without a checkpoint
UNTRAINED: dict[str, Untrained] = {
    "analytic": Untrained("seqtune.predictor.untrained:AnalyticPredictor", ("cuda", "triton")),
    SAFE_DEFAULT: Untrained("seqtune.predictor.untrained:SafeDefaults", ()),
}


class Predictor(Protocol):
    """The interface of every predictor and every baseline: propose configurations without measuring."""

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        """Propose at least one and at most `count` distinct configurations for each task, best first.

        The proposals for a task do not depend on the other tasks.
        """
        ...


class TaskPredictor(Predictor, Protocol):
    """A predictor that makes its own tasks, so that it answers a problem on a device."""

    @property
    def backends(self) -> Collection[str]:
        """The backends of the devices that it answers for."""
        ...

    def task(self, problem: Problem, device: Device) -> Task:
        """The task of a problem on a device with the kernels that it knows. Raises KernelError."""
        ...

    def knows(self, kernels: Iterable[Kernel]) -> bool:
        """Return whether the predictor knows a kernel of one of these names, perhaps another version of the kernel."""
        ...

    def check_kernels(self, kernels: Iterable[Kernel]) -> None:
        """Check that it can propose configurations of these kernels. Raises CheckpointError."""
        ...

    def notes(self, task: Task) -> tuple[str, ...]:
        """Lines for the user that say on what its answer does not rest; empty without any."""
        ...

    def propose(self, tasks: Sequence[Task], count: int, evidence: Evidence | None = None) -> list[list[Candidate]]:
        """Propose as every predictor does. The evidence corrects the times that its experts expect, if it has any."""
        ...


def cached_checkpoint(name: str | Path) -> Checkpoint:
    """A checkpoint by its path or name, kept until its files change. Raises CheckpointError."""
    from .checkpoint_folder import FORMER, MOST_LAYERS, find

    if not isinstance(name, str | Path):
        raise CheckpointError(f"checkpoint={shown(name)} is not the name or the path of a checkpoint")
    folder = find(name)
    layers = [folder.joinpath(*[FORMER] * depth) for depth in range(MOST_LAYERS)]
    try:
        stamps = tuple((path.name, path.stat().st_mtime_ns) for layer in layers if layer.is_dir()
                       for path in sorted(layer.iterdir()))
    except OSError as error:  # a link to nothing or to itself, or a folder that is replaced right now
        raise CheckpointError(f"{folder} is no checkpoint: cannot read {error.filename}: {reason(error)}") from None
    return _loaded(str(folder), stamps)


@lru_cache(maxsize=4)
def _loaded(folder: str, stamps: tuple[tuple[str, int], ...]) -> Checkpoint:
    from .checkpoint import Checkpoint

    return Checkpoint.load(folder)


def named_predictor(name: str | Path) -> TaskPredictor:
    """The predictor of a name in UNTRAINED, of a dispatcher's file (`.json`), or a checkpoint. Raises CheckpointError.
    """
    if isinstance(name, str | Path) and Path(name).suffix.lower() == ".json":
        from .dispatch.predictor import dispatched_predictor

        return dispatched_predictor(name)
    return untrained_predictor(str(name)) if name in UNTRAINED else cached_checkpoint(name)


def untrained_predictor(name: str) -> TaskPredictor:
    """Make the predictor of UNTRAINED with this name."""
    factory: Any = resolve(UNTRAINED[name].factory)
    predictor: TaskPredictor = factory()
    return predictor


def shipped_for(backend: str) -> str:
    """The name of the shipped checkpoint that predicts for a backend. Raises CheckpointError."""
    for name, backends in SHIPPED.items():
        if backend in backends:
            return name
    raise CheckpointError(f"no shipped checkpoint speaks for {backend} devices; train one and name it (--checkpoint)")


def answers_for(backend: str) -> str:
    """The name of the predictor that answers for a backend by default: a shipped checkpoint's, or one of UNTRAINED.

    Raises CheckpointError if there is none.
    """
    if not any(backend in backends for backends in SHIPPED.values()):
        for name, untrained in UNTRAINED.items():
            if backend in untrained.backends:
                return name
    return shipped_for(backend)
