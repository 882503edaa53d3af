"""Validity: whether any answer of a dispatcher is invalid, over a million random shapes and corners of its domain.

The members are random configurations, each valid for some shape. Their verdicts are those of `Membership`, which
evaluates the kernels' own constraints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from seqtune.errors import MisuseError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.libraries.reading import read_library
from seqtune.kernels.libraries.table import use
from seqtune.kernels.membership import Membership
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns
from seqtune.kernels.registry import families
from seqtune.kernels.space import SearchSpace
from seqtune.predictor.dispatch.dispatcher import Dispatcher
from seqtune.predictor.dispatch.domain import Domain, Span
from seqtune.predictor.dispatch.rule import Rule

SHAPES, TOGETHER, CORNERS, MEMBERS = 1_000_000, 100_000, 50_000, 8
CPU = Device("llvm:avx512:2", "llvm", "", "avx512", threads=2, vector_bits=512, vector_registers=32, l2_bytes=1 << 20)
OPENCL = Device("opencl:cpu", "opencl", "", "opencl-c-1.2", threads=2, compute_units=2, vector_bits=512,
                l2_bytes=1 << 20, local_memory=1 << 19, max_work_group=4096)
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "matrix_product" / "library.toml"
_SIZES = ("m=1..4096", "n=1..4096", "k=1..4096")
TARGETS: dict[str, tuple[str, Device, tuple[str, ...]]] = {
    "llvm": ("gemm", CPU, (*_SIZES, "trans_b=no,yes")),
    "llvm's convolutions": ("conv2d", CPU, ("n=1..8", "c=1..512", "h=1..224", "k=1..512", "r=1..7", "pad=0..3",
                                            "stride=1,2", "groups=1..512", "layout=NCHW,NHWC")),
    "clblast": ("gemm", OPENCL, (*_SIZES, "trans_a=no,yes")),
    "a stranger's library": ("matrix_product", OPENCL, _SIZES)}


@dataclass(frozen=True, slots=True)
class ValidityRow:
    """A target, and the counts of its shapes and of faults among its answers."""

    target: str
    shapes: int
    invalid: int  # answers, first or second, that are not valid, and second ones that are the first
    missed: int  # first or second answers that are lacking though one or two members are valid
    none: int  # shapes for which no member is valid


def validity_row(target: str, shapes: int = SHAPES, seed: int = 0) -> ValidityRow:
    """Count over random shapes, and then over corners, which have each size at an end of its range."""
    use(read_library(EXAMPLE))
    name, device, texts = TARGETS[target]
    domain, generator, counts = Domain.parse(operation(name), texts), np.random.default_rng(seed), np.zeros(4, int)
    kernels = {family.name: family for family in (clblast() if target == "clblast" else families(device.backend, name))}
    problems = [problem for _, problem in domain.sample(200, generator).problems()]
    members = configurations([*kernels.values()], device, problems, MEMBERS, generator)
    dispatcher = Dispatcher.of(members, kernels, device, Rule(len(members)), domain)
    while counts[0] < shapes:
        counts += counted(dispatcher, kernels, domain.sample(min(TOGETHER, shapes - int(counts[0])), generator))
    counts += counted(dispatcher, kernels, corners(domain, CORNERS))
    return ValidityRow(target, *counts.tolist())


def clblast() -> tuple[Kernel, ...]:
    """The products of CLBlast, which may be missing."""
    from seqtune.integrations.clblast.kernels import xgemm, xgemm_direct

    return xgemm.KERNEL, xgemm_direct.KERNEL


def configurations(kernels: Sequence[Kernel], device: Device, problems: Sequence[Problem], count: int,
                   generator: np.random.Generator) -> list[Configuration]:
    """Up to `count` different random configurations, each valid for one of the problems."""
    members: dict[Configuration, None] = {}
    for problem in problems:
        for family in kernels:
            with suppress(MisuseError):  # it does not solve the problem, or a constraint has no value
                members.update(dict.fromkeys(SearchSpace(family, problem, device).sample(generator, 1)))
        if len(members) >= count:
            break
    return list(members)[:count]


def corners(domain: Domain, count: int) -> ProblemColumns:
    """Problems of a domain whose sizes are at the ends of their ranges."""
    ranges = {name: tuple(values) if isinstance(values, Span) else values for name, values in domain.ranges.items()}
    return replace(domain, ranges=ranges).sample(count, np.random.default_rng(0))


def counted(dispatcher: Dispatcher, kernels: Mapping[str, Kernel], columns: ProblemColumns) -> tuple[int, ...]:
    """The counts of a ValidityRow for shapes, given as columns; `kernels` are those of the members, by name."""
    assert dispatcher.device is not None
    valid = np.column_stack([[reason is None for reason in Membership(
        kernels[member.kernel], columns, dispatcher.device,
        {name: np.full(len(columns), value) for name, value in member.settings}).reasons]
        for member in dispatcher.members])
    answers, rows, counts = dispatcher.choose_many(columns), np.arange(len(columns)), valid.sum(axis=1)
    first, second = answers.members >= 0, answers.seconds >= 0
    invalid = int((first & ~valid[rows, answers.members]).sum())
    invalid += int((second & ~(valid[rows, answers.seconds] & (answers.members != answers.seconds))).sum())
    missed = int((~first & (counts > 0)).sum() + (~second & (counts > 1)).sum())
    return len(columns), invalid, missed, int((counts == 0).sum())
