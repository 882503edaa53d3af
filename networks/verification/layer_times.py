"""LayerTimes: how the time of one run of a compiled graph is divided among its layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from seqtune.kernels.problem import Problem
from seqtune.tuner.backends.backend import wall_clock

from ..capture.examples import clones
from ..module import NetworkModule
from ..nodes import Tuned
from ..program.device_threads import TURN
from .budget import rounds_within

ROUNDS = 5  # samples of a run and of each job; the least counts
PASSES = 2  # a round is timed twice: the whole run, and its jobs one by one


@dataclass(frozen=True, slots=True)
class LayerTimes:
    """The seconds of one run of a graph and of its parts, each the least of some samples.

    On a busy machine a run takes longer than the sum of its steps' least times.
    """

    run: float
    steps: float  # the sum over all steps of the programs, which are timed one by one
    layers: Mapping[Problem, float]  # the sum over all layers with one problem


def operands_of(programs: Sequence[NetworkModule],
                run: Callable[[], object]) -> dict[NetworkModule, tuple[Tensor, ...]]:
    """The operands that each program gets in a run; a program that is not called is left out."""
    operands: dict[NetworkModule, tuple[Tensor, ...]] = {}
    handles = [program.register_forward_pre_hook(lambda module, given: operands.__setitem__(module, given))
               for program in programs]
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
    return operands


def layer_times(graph: nn.Module, examples: Sequence[Any], seconds: float,
                measure: Callable[..., list[float]] = NetworkModule.measure) -> LayerTimes:
    """Time a compiled graph and the layers in its programs in about `seconds`, with operands of the examples' values.

    ROUNDS samples are taken, or fewer where these would take longer, but at least one. `measure` takes a program, its
    operands and the number of rounds, and returns the least seconds of each job.
    """
    programs = [module for module in graph.modules() if isinstance(module, NetworkModule)]
    layers: dict[Problem, float] = {}
    steps = 0.0
    with TURN, torch.no_grad():
        once = partial(graph, *clones(examples))
        operands = operands_of(programs, once)
        run = wall_clock(once, 1)
        rounds = rounds_within(seconds / PASSES, run, 1, ROUNDS)
        run = min(run, *(wall_clock(once, 1) for _ in range(rounds)))
        for program, values in operands.items():
            for job, least in zip(program.jobs, measure(program, *values, rounds=rounds), strict=True):
                steps += least
                if isinstance(job.node, Tuned):
                    layers[job.node.problem] = layers.get(job.node.problem, 0.0) + least
    return LayerTimes(run, steps, layers)
