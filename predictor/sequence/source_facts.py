"""SourceFacts: the names and values of a source sentence's positions, for a problem on a device.

There are two lists. `facts` has the raw facts of a device: for labels, whose devices are described by data sheets, and
for older checkpoints. `ratios` has ratios of problem and device instead of cache sizes, measured rates and the word for
the architecture, so that a device outside of the training data needs no word outside of the vocabulary. A vocabulary
that has the names of ratios uses them.
An operation with a `sentence` of its own says itself which facts stand in its positions, and several share one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.device import CAPABILITIES, Device
from seqtune.kernels.expression import Expression
from seqtune.kernels.operations.feature import Value
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem, names_of
from seqtune.tuner.cost_models.machine_ratios import RATIOS, machine_ratios

SourceList = Literal["facts", "ratios"]
Facts = list[tuple[str, Value]]  # name and value of each position

RATIO_NAMES = tuple(f"machine.{name}" for name in RATIOS)
_WORDS = ("backend", "instruction_set", "architecture")
_NUMBERS = ("threads", "compute_units", "vector_floats", "vector_registers", "l1_bytes", "l2_bytes", "l3_bytes",
            "local_memory", "max_work_group", "peak_gflops", "bandwidth_gbs")
LARGEST_WORK_GROUP = 1024  # no kernel's parameter is larger; more on a CPU says only which runtime it is


def source_facts(problem: Problem, device: Device, listed: SourceList, ratios: Sequence[str]) -> Facts:
    """The positions of the source sentence of a problem on a device; the named ratios are the last ones."""
    own = own_values(problem, device)
    if own:
        return [(f"{problem.type}.{name}", value) for name, value in own.items()]
    return [*problem_facts(problem), *listed_facts(device, listed), *ratio_facts(problem, device, ratios)]


@lru_cache(maxsize=64)
def own_facts(type_name: str) -> Mapping[str, Expression]:
    """The facts of an operation's own sentence by name, in order; empty if it has none."""
    return {name: expression for facts in operation(type_name).sentence.values() for name, expression in facts.items()}


@lru_cache(maxsize=256)
def own_values(problem: Problem, device: Device) -> Mapping[str, Value]:
    """The values of the facts of an operation's own sentence by name, in order; empty if it has none."""
    names: dict[str, Any] = {**names_of(problem, device), **_rates(device)}
    values: dict[str, Value] = {}
    for name, expression in own_facts(problem.type).items():
        known = all(names.get(used) is not None for used in expression.names)
        values[name] = names[name] = expression(names) if known else None
    return values


@lru_cache(maxsize=64)
def own_positions(type_name: str) -> NDArray[np.int64] | None:
    """The position in which each fact of an operation's own sentence stands, (fact,); None if it has none."""
    lengths = [len(facts) for facts in operation(type_name).sentence.values()]
    return np.repeat(np.arange(len(lengths)), lengths) if lengths else None


def device_names(device: Device) -> Mapping[str, Any]:
    """The facts of a device that an operation's own sentence can name."""
    return {**device.names(), **_rates(device)}


def _rates(device: Device) -> Mapping[str, float]:
    return {"peak_gflops": device.peak_gflops, "bandwidth_gbs": device.bandwidth_gbs}


def listed_facts(device: Device, listed: SourceList) -> Facts:
    """The positions that describe the device alone."""
    return list(_listed_facts(device, listed))


@lru_cache(maxsize=256)
def _listed_facts(device: Device, listed: SourceList) -> tuple[tuple[str, Value], ...]:
    return tuple(device_facts(device) if listed == "facts" else kept_facts(device))


def problem_facts(problem: Problem) -> Facts:
    """The type of the problem and its features, derived quantities included."""
    return [("type", problem.type), *((f"{problem.type}.{name}", value) for name, value in problem.names().items())]


def device_facts(device: Device) -> Facts:
    """All facts of a device."""
    return [*((f"device.{name}", getattr(device, name)) for name in _WORDS + _NUMBERS), *_extra(device)]


def ratio_facts(problem: Problem, device: Device, names: Sequence[str]) -> Facts:
    """The named ratios of a problem and a device; the names are some of RATIO_NAMES."""
    if not names:
        return []
    ratios = machine_ratios(problem, device)
    return [(name, _smooth(ratios[name.removeprefix("machine.")])) for name in names]


def kept_facts(device: Device) -> Facts:
    """The facts of a device that stand beside ratios: counts, and words that other machines share."""
    gpu = device.threads == 0
    facts: Facts = [
        ("backend", device.backend), ("instruction_set", device.instruction_set), ("threads", device.threads),
        ("compute_units", device.compute_units), ("vector_floats", device.vector_floats),
        ("vector_registers", device.vector_registers),
        ("local_memory", device.local_memory if gpu else 0),  # on a CPU the number is the runtime's choice
        ("max_work_group", min(device.max_work_group, LARGEST_WORK_GROUP))]
    return [*((f"device.{name}", value) for name, value in facts), *_extra(device)]


def _extra(device: Device) -> Facts:
    # A capability says which kernels there are; the kernel's word says it already.
    return [(f"device.{name}", value) for name, value in device.extra if name not in CAPABILITIES]


def _smooth(ratio: float | None) -> float | None:
    """The ratio, never a whole number: the code of a whole number shows its divisors, which a ratio does not have."""
    return ratio * (1 + 2**-40) if ratio is not None and ratio.is_integer() else ratio
