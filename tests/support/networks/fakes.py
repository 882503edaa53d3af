"""Fakes of loads, times and verdicts, which replace the machine in tests of the verification of networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seqtune.networks.compiler import CompiledGraph
from seqtune.networks.verification.verifier import NetworkVerifier
from seqtune.tuner.load import Load, LoadMeter

Seconds = Mapping[str, Sequence[float]]
Timer = Callable[..., dict[str, tuple[float, ...]]]


class IdleMeter(LoadMeter):
    """A meter on a machine that does nothing else."""

    def load(self) -> Load:
        """No load."""
        return Load()


class BusyMeter(LoadMeter):
    """A meter on a machine that other programs use."""

    def load(self) -> Load:
        """All CPUs."""
        return Load(1.0)


class Unverified(NetworkVerifier):
    """A verifier that keeps the prediction, without measuring."""

    def verify(self, compiler: object, compiled: CompiledGraph, *_: Any) -> CompiledGraph:
        """The predicted network."""
        return compiled


def times_of(seconds: Seconds, called: Callable[[], object] = lambda: None) -> Timer:
    """A timer that returns the seconds of each name, or those of "theirs", and calls `called` each time."""
    def timer(runs: Mapping[str, object], *_: object) -> dict[str, tuple[float, ...]]:
        called()
        return {name: tuple(seconds.get(name, seconds["theirs"])) for name in runs}

    return timer
