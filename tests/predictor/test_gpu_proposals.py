"""Every configuration that is proposed for a GPU is valid, and compiles to what its kernel declares."""

from __future__ import annotations

import pytest

from seqtune.errors import UnavailableError
from seqtune.kernels.devices.accelerators import described
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.registry import kernel
from seqtune.predictor.answering import answering_many, propose_many
from seqtune.predictor.candidate import Candidate
from seqtune.tuner.compile_check import check_configurations, offline_compiler
from tests.support.declarations import why_invalid
from tests.support.devices import described_gpu

PROBLEMS = [parse_problem(words) for words in (
    "gemm m=512 n=1024 k=256 dtype=fp16", "gemm m=37 n=1000 k=333", "gemm m=1 n=4096 k=4096 dtype=bf16 trans_b=yes",
    "conv2d c=64 h=28 w=28 k=64 r=3 s=3 pad=1 dtype=fp16 layout=NHWC",
    "conv2d c=3 h=56 w=56 k=64 r=7 s=7 pad=3 stride=2",
    "fused_moe tokens=16 experts=8 top_k=2 hidden=4096 intermediate=3584 half=up dtype=bf16",
    "scaled_gemm m=64 n=2048 k=2048",
    "quantized_gemm m=16 n=4096 k=4096 dtype=fp16 weight_dtype=int4 packed=8 scale_n=1 scale_k=128")]
GPUS = [device for model in ("t4", "a100", "h100", "rtx-5090", "mi300x") for backend in ("cuda", "triton")
        if (device := described(backend, model)) is not None]


def proposed(device: Device, problems: list[Problem], count: int) -> list[tuple[Problem, list[Candidate]]]:
    """The proposals for those problems that a kernel solves on the device."""
    answered, _ = answering_many(problems, device)
    return list(zip(answered, propose_many([*answered.values()], count, evidence=False), strict=True))


@pytest.mark.parametrize("device", GPUS, ids=lambda device: device.name)
def test_every_proposal_is_valid_by_the_declaration_of_its_kernel(device: Device) -> None:
    answers = proposed(device, PROBLEMS, 5)
    assert answers
    for problem, candidates in answers:
        configurations = [candidate.configuration for candidate in candidates]
        assert configurations, problem.brief()
        assert [reason for configuration in configurations if (reason := why_invalid(
            kernel(configuration.kernel), device, problem, configuration)) is not None] == [], problem.brief()


@pytest.mark.parametrize(("backend", "model", "problems"), [
    ("cuda", "h100", [PROBLEMS[0], PROBLEMS[3]]), ("cuda", "a100", [PROBLEMS[1]]),
    ("triton", "a100", [PROBLEMS[0]]), pytest.param("triton", "mi300x", [PROBLEMS[0]], marks=pytest.mark.anywhere)])
def test_first_proposals_compile_to_what_their_kernel_declares(backend: str, model: str,
                                                               problems: list[Problem]) -> None:
    device = described_gpu(backend, model)
    try:
        compiler = offline_compiler(device)
    except UnavailableError as error:
        pytest.skip(str(error))
    answers = proposed(device, problems, 1)
    assert len(answers) == len(problems)
    for problem, (candidate,) in answers:
        family = kernel(candidate.configuration.kernel)
        check = check_configurations(family, device, compiler, [(problem, candidate.configuration)])
        assert check.passed, (*check.failures, *check.contradictions)
