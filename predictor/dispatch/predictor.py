"""DispatchedPredictor: the file of a dispatch as a predictor, so that every door which takes a checkpoint takes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from seqtune.errors import CheckpointError, KernelError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.files import reason
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import is_registered, kernel
from seqtune.kernels.task import Task

from ..candidate import Candidate
from .dispatcher import Dispatcher

if TYPE_CHECKING:
    from ..proposing import Evidence


class DispatchedPredictor:
    """A predictor that proposes the members of a dispatcher, in the order of its rule, and then the safe default.

    Outside of the domain, where nothing is known of the members, there is only the safe default. A member that the task
    does not have is left out, so that another device gets valid configurations, too.
    """

    def __init__(self, dispatcher: Dispatcher, path: Path) -> None:
        self.dispatcher, self.path = dispatcher, path
        self.names = tuple(dict.fromkeys(member.kernel for member in dispatcher.members))
        device = dispatcher.device
        self.backends = tuple(dict.fromkeys(
            backend for name in self.names if is_registered(name) for backend in kernel(name).backends)
        ) if device is None else (device.backend,)

    def task(self, problem: Problem, device: Device) -> Task:
        """The task of a problem with the members' kernels. Raises KernelError, also for another operation."""
        if not self._serves(problem):
            raise KernelError(f"{self.path} chooses kernels for {self.dispatcher.operation.name}, not for "
                              f"{problem.type}; name another dispatcher or a checkpoint")
        return Task.of(problem, device, [kernel(name) for name in self.names])

    def knows(self, kernels: Iterable[Kernel]) -> bool:
        """Return whether a member is of one of these kernels."""
        return any(kernel.name in self.names for kernel in kernels)

    def check_kernels(self, kernels: Iterable[Kernel]) -> None:
        """Check that a member is of one of these kernels. Raises CheckpointError."""
        names = [kernel.name for kernel in kernels]
        if not set(names) & set(self.names):
            raise CheckpointError(f"{self.path} chooses among {', '.join(self.names)}, not {', '.join(names)}")

    def notes(self, task: Task) -> tuple[str, ...]:
        """Notes for the user: the device is another one, or the problem is outside of the domain."""
        device = self.dispatcher.device
        notes = [] if device is None or device.key == task.device.key else [
            f"{self.path.name} was made for {device.name}, not for {task.device.name}"]
        if self._serves(task.problem) and not self.dispatcher.choose(task.problem).in_domain:
            notes.append(f"{task.problem.brief()} is outside of the domain of {self.path.name}")
        return tuple(notes)

    def propose(self, tasks: Sequence[Task], count: int, evidence: Evidence | None = None) -> list[list[Candidate]]:
        """Propose the valid members in the order of the rule, and the safe default. Measurements change nothing."""
        return [self._proposals(task)[:count] for task in tasks]

    def _proposals(self, task: Task) -> list[Candidate]:
        members = self.dispatcher.order(task.problem) if self._serves(task.problem) else []
        valid = [member for member in members if task.find(member) is not None]
        return [Candidate(configuration) for configuration in dict.fromkeys([*valid, task.default])]

    def _serves(self, problem: Problem) -> bool:
        return problem.type == self.dispatcher.operation.name


def dispatched_predictor(path: str | Path) -> DispatchedPredictor:
    """The predictor of a dispatcher's JSON file, kept until the file changes. Raises CheckpointError, FormatError."""
    try:
        return _loaded(Path(path), Path(path).stat().st_mtime_ns)
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {reason(error)}") from None


@lru_cache(maxsize=4)
def _loaded(path: Path, stamp: int) -> DispatchedPredictor:
    return DispatchedPredictor(Dispatcher.load(path), path)
