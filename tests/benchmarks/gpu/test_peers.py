"""The peers of a comparison on a GPU: PyTorch's operations, and the names of the heuristics' GPUs."""

from __future__ import annotations

import pytest

from benchmarks.gpu.peers import COMPILED, torch_contestants
from seqtune.kernels.problem import Problem
from seqtune.tuner.measuring.timing import prepare

GEMM = Problem.make("gemm", m=4, n=4, k=4, dtype="fp16")
CONVOLUTION = Problem.make("conv2d", c=4, h=3, w=3, k=4, r=1, s=1)


@pytest.mark.parametrize("problem", [GEMM, CONVOLUTION], ids=lambda problem: problem.type)
@pytest.mark.parametrize("compiled", [False, True])
def test_torch_compile_takes_part_where_it_is_asked_for(compiled: bool, problem: Problem,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    operands, expected = prepare(problem)
    contestants, notes = torch_contestants(problem, operands, expected, "cpu", compiled)
    methods = [contestant.method for contestant in contestants]
    assert (COMPILED in methods) == compiled
    assert len(methods) == (1 if problem.type == "gemm" else 2) + compiled
    assert notes == []
    # the device "meta" computes shapes only, so each operation that is asked for is left out with a note
    contestants, notes = torch_contestants(problem, operands, expected, "meta", compiled)
    assert contestants == []
    assert [note.split(": ")[1].removesuffix(" is left out") for note in notes] == methods
    other = Problem.make("scaled_gemm", m=1, n=128, k=128)
    assert torch_contestants(other, {}, expected, "cpu", compiled) == ([], [])
