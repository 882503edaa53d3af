"""Peers of a GPU day: which of PyTorch's operations take part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import gpu_day
from benchmarks.gpu.contests import contest as contests
from benchmarks.gpu.contests.torch_peers import COMPILED, PEERS, torch_contestants
from benchmarks.gpu.day import Day, DayState, Sizes
from benchmarks.gpu.slices import Slice
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
    asked = PEERS[problem.type] if compiled else [name for name in PEERS[problem.type] if name != COMPILED]
    # the device "meta" computes shapes only, so each operation that is asked for is left out with a note
    contestants, notes = torch_contestants(problem, operands, expected, "meta", compiled)
    assert contestants == []
    assert [note.split(": ")[1].removesuffix(" is left out") for note in notes] == list(asked)
    contestants, notes = torch_contestants(problem, operands, expected, "cpu", compiled)
    assert [contestant.method for contestant in contestants] == [name for name in asked if name != COMPILED]


def test_a_contest_passes_on_whether_torch_compile_takes_part(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, bool]] = []

    def no_peers(problem: Problem, operands: Any, expected: Any, device: str, compiled: bool) -> Any:
        asked.append((device, compiled))
        return [], ["none"]

    monkeypatch.setattr(contests, "torch_contestants", no_peers)
    assert contests.contest(GEMM, [], 1, False) == ([], ["none"])
    assert contests.contest(GEMM, [], 1, True) == ([], ["none"])
    assert asked == [("cpu", False), ("cpu", True)]


def test_options_of_the_peers_reach_the_sizes_of_the_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Sizes] = []

    def run(day: Day, state: DayState, slices: list[Slice], times: float, until: float) -> list[str]:
        seen.append(day.sizes)
        return []

    monkeypatch.setattr(gpu_day, "run_slices", run)
    for more in ((), ("--libraries-only", "--peer-problems", "3")):
        monkeypatch.setattr("sys.argv", ["gpu_day", "--dry-run", "--only", "peers-gemm", "--out", str(tmp_path), *more])
        gpu_day.main()
    assert [(sizes.compiled_peers, sizes.peer_problems) for sizes in seen] == [(True, 2), (False, 3)]
