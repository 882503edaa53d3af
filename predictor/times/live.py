"""LiveContest: the times of an evaluation that does not look up recorded ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.tuner.measuring.contest import Contest, hold_contest
from seqtune.tuner.measuring.runner import Runner


class LiveContest:
    """Holds the contests of live evaluations on one device; every build begins with a new worker."""

    def __init__(self, device: Device, progress: Callable[[str], None]) -> None:
        self.runner = Runner(device)
        self.progress = progress

    def __enter__(self) -> LiveContest:
        return self

    def __exit__(self, *error: object) -> None:
        self.runner.close()

    def __call__(self, problem: Problem, device: Device, wanted: Sequence[Configuration]) -> Contest:
        self.progress(f"{problem.brief()}: a first look at {len(wanted)} configurations")
        return hold_contest(self.runner, problem, wanted, renew=self.runner.close, progress=self.progress)
