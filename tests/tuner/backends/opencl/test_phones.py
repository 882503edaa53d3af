"""Proposals for GPUs of phones stay within the limits of these GPUs, and compute the right results there.

PoCL runs them, within the limits of the phone's GPU and of its compiled kernels.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import numpy as np
import pytest

from seqtune.data.record import Status
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel, quantities
from seqtune.kernels.launches.call_declaration import call_of
from seqtune.kernels.opencl.library import LIBRARY
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace, spaces_for
from seqtune.predictor.answering import answering
from seqtune.tuner.backends.called_executable import CalledExecutable
from seqtune.tuner.backends.opencl.backend import OpenCLBackend
from seqtune.tuner.backends.opencl.calls import OpenCLCalls
from seqtune.tuner.backends.stored_operands import StoredOperands
from seqtune.tuner.measuring.timing import check, prepare
from tests.support.oddities import random_convolution
from tests.support.phones import PHONES, Phone, PhoneLimits

PROBLEMS = (
    "gemm m=256 n=512 k=256", "gemm m=1 n=1000 k=2048 bias=yes", "gemm m=49 n=3 k=7 trans_a=yes",
    "conv2d c=64 h=56 w=56 k=64 r=3 s=3 pad=1", "conv2d c=3 h=224 w=224 k=64 r=7 s=7 stride=2 pad=3 layout=NHWC",
    "conv2d c=256 h=14 w=14 k=1024 r=1 s=1", "conv2d c=32 h=28 w=28 k=32 r=3 s=3 pad=1 groups=32",
    "conv2d n=4 c=512 h=7 w=7 k=512 r=3 s=3 pad=1 activation=relu")
SMALL = ("gemm m=37 n=50 k=40 bias=yes", "conv2d c=16 h=9 w=13 k=24 r=3 s=3 pad=1",
         "conv2d c=24 h=8 w=8 k=32 r=1 s=1 layout=NHWC activation=relu")
PROPOSED = 10
SAMPLED = 40  # of each space
RUN = 1  # proposals that run, beside the default of each family
# What these drivers lack or emulate, and our kernels do without. Half precision is there; no kernel computes in it.
UNUSED = re.compile(r"\b(SHARED|LOCAL|__local|barrier|image\d\w*|read_image\w*|sampler_t|half\d*|double\d*)\b")
LOCAL_WORDS = {"SHARED", "LOCAL", "barrier"}  # of local memory
DEFINITION = re.compile(r"^#.*", re.MULTILINE)  # of a macro


def proposals(problem: Problem, device: Device, count: int) -> list[Configuration]:
    """The predictor's first proposals."""
    return list(answering(problem, device).propose(count))


def registers_of(family: Kernel, problem: Problem, device: Device, configuration: Configuration) -> int:
    """The registers of four floats that a configuration is declared to use."""
    names = quantities(family.derived, problem, device, configuration)
    return int(names.get("registers_used", names["registers"] + names.get("vectors_n", 0) + 1))


def check_limits(phone: Phone, family: Kernel, problem: Problem, configuration: Configuration) -> None:
    """The configuration is valid, and what it launches is within the limits of the device and of its kernel."""
    device, words = phone.device, f"{problem.brief()}: {configuration.brief()}"
    assert SearchSpace(family, problem, device).why_not(configuration) is None, words
    call = call_of(family, problem, device, configuration)
    used = set(UNUSED.findall(DEFINITION.sub("", call.source.text)))
    assert not (used - LOCAL_WORDS if device.local_memory else used), words
    allowed = phone.allowed(min(phone.registers, registers_of(family, problem, device, configuration)))
    for step in call.steps:
        assert step.local_bytes <= device.local_memory, words
        assert math.prod(step.local_size or (1,)) <= min(device.max_work_group, allowed), words
        assert max(step.local_size or (1,)) <= phone.side, words


@pytest.mark.parametrize("phone", PHONES, ids=lambda phone: phone.name)
def test_whatever_is_proposed_or_drawn_is_within_the_limits_of_the_device(phone: Phone) -> None:
    device, generator = phone.device, np.random.default_rng(7)
    seen: set[str] = set()
    odd = [random_convolution(generator) for _ in range(6)]
    for problem in (*(parse_problem(words.split()) for words in PROBLEMS), *odd):
        chosen = proposals(problem, device, PROPOSED)
        for space in spaces_for(problem, device):
            chosen += [space.default, *space.sample(generator, min(SAMPLED, len(space)))]
        for configuration in chosen:
            check_limits(phone, kernel(configuration.kernel), problem, configuration)
        seen.update(configuration.kernel for configuration in chosen)
    assert seen == set(LIBRARY.table)


@pytest.fixture(params=PHONES, ids=lambda phone: phone.name)
def limited(request: pytest.FixtureRequest, backend: OpenCLBackend) -> Iterator[tuple[Phone, PhoneLimits, OpenCLCalls]]:
    """A phone's GPU, its limits, and the launches of the first OpenCL device within them."""
    limits = PhoneLimits(backend.cl, backend.handle, request.param)
    yield request.param, limits, OpenCLCalls(backend.cl, backend.context, backend.queue, limits, backend.program,
                                             on_cpu=backend.device.threads > 0)
    backend.queue.finish()


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.anywhere
def test_proposals_are_right_within_the_limits_of_their_compiled_kernels(
        limited: tuple[Phone, PhoneLimits, OpenCLCalls]) -> None:
    phone, limits, calls = limited
    device = phone.device
    ran: set[str] = set()
    for number, words in enumerate(SMALL):
        problem = parse_problem(words.split())
        operands, expected = prepare(problem)
        spaces = spaces_for(problem, device)
        drawn = spaces[number % len(spaces)].sample(np.random.default_rng(number), 1)
        for configuration in dict.fromkeys((*(space.default for space in spaces), *drawn,
                                            *proposals(problem, device, RUN))):
            family = kernel(configuration.kernel)
            check_limits(phone, family, problem, configuration)
            limits.registers = registers_of(family, problem, device, configuration)
            executable = CalledExecutable.of(calls, StoredOperands(), problem, device, family, configuration)
            measured, _ = check(executable, operands, expected)
            executable.close()
            assert measured.status is Status.CORRECT, f"{words}: {configuration.brief()}: {measured.message}"
            ran.add(configuration.kernel)
    assert ran == set(LIBRARY.table)
