"""A grid of configurations whose times form a bowl, and a search of it: the same for every strategy."""

from __future__ import annotations

from seqtune.data.record import Measurement, Status
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Constraint, Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.strategies.strategy import Strategy

DEVICE = Device("test:1", "test", "paper", "none")
PROBLEM = Problem.make("gemm", m=3, n=4, k=5)


def spaces(*sizes: int) -> list[SearchSpace]:
    """A space for each size: a grid x, y with x + y < size."""
    values = tuple(range(12))
    return [SearchSpace(Kernel(f"test.k{size}", "gemm", ("test",), (Parameter("x", values), Parameter("y", values)),
                               (Constraint.of(f"x + y < {size}", "too far out"),), (("x", 0), ("y", 0))),
                        PROBLEM, DEVICE) for size in sizes]


def seconds(configuration: Configuration) -> float:
    """The time of a configuration: a bowl with its minimum at (3, 2)."""
    return 1e-3 + 1e-4 * ((configuration.number("x") - 3) ** 2 + (configuration.number("y") - 2) ** 2)


def play(strategy: Strategy, batch: int = 4, most: int = 10_000) -> list[Configuration]:
    """Run a search in which every seventh trial fails; return its proposals."""
    proposals: list[Configuration] = []
    while len(proposals) < most and (configurations := strategy.ask(batch)):
        assert len(configurations) <= batch
        for configuration in configurations:
            proposals.append(configuration)
            strategy.tell(configuration, Measurement(Status.CRASH) if len(proposals) % 7 == 0
                          else Measurement(Status.CORRECT, (seconds(configuration),)))
    return proposals
