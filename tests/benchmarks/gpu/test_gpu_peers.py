"""Peers of a GPU day: which of PyTorch's operations take part."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import gpu_day
from benchmarks.gpu.contests import contest as contests
from benchmarks.gpu.contests import peers
from benchmarks.gpu.contests.contest import Entry
from benchmarks.gpu.contests.ratios import means, summary, with_compiler
from benchmarks.gpu.contests.torch_peers import COMPILED, PEERS, peers_of, torch_contestants
from benchmarks.gpu.day import DRY_SIZES, Day, DayState, Sizes
from benchmarks.gpu.slices import Slice
from benchmarks.gpu.stand_in import stand_in_of
from seqtune.kernels.devices.accelerators import described
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
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
    asked = peers_of(problem, compiled)
    assert [*asked, *([] if compiled else [COMPILED])] == list(PEERS[problem.type])
    # the device "meta" computes shapes only, so each operation that is asked for is left out with a note
    contestants, notes = torch_contestants(problem, operands, expected, "meta", compiled)
    assert contestants == []
    assert tuple(note.split(": ")[1].removesuffix(" is left out") for note in notes) == asked
    contestants, notes = torch_contestants(problem, operands, expected, "cpu", compiled)
    assert tuple(contestant.method for contestant in contestants) == asked


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
        gpu_day.main(["--dry-run", "--only", "peers-gemm", "--out", str(tmp_path), *more])
    assert [(sizes.compiled_peers, sizes.peer_problems) for sizes in seen] == [(True, 2), (False, 3)]


def rows_of(problem: str, **seconds: float) -> list[dict[str, Any]]:
    """Rows of a contest; `compile` stands for torch.compile."""
    return [{"problem": problem, "method": COMPILED if method == "compile" else method, "seconds": value}
            for method, value in seconds.items()]


def test_ratios_are_of_the_fastest_peer_and_apart_where_torch_compile_takes_no_part() -> None:
    rows = rows_of("p", matmul=2.0, compile=4.0, default=4.0, tuned=1.0)
    assert [(method, round(mean, 9), count) for method, (mean, count) in means(rows).items()] == [
        ("default", 0.5, 1), ("tuned", 2.0, 1)]
    assert means(rows_of("alone", tuned=1.0)) == {}
    rows += rows_of("q", matmul=3.0, tuned=1.0)
    rows += [{**row, "compiled": True} for row in rows_of("r", matmul=8.0, tuned=1.0)]  # it was asked, and failed
    assert with_compiler(rows) == {"p", "r"}
    parts = summary(rows)
    assert {label: (part["problems"], part["means"]["tuned"]) for label, part in parts.items()} == {
        "with torch.compile": (2, pytest.approx(4.0)), "with libraries only": (1, pytest.approx(3.0))}
    assert list(summary(rows[4:6])) == ["with libraries only"]


@pytest.mark.parametrize(("compiled", "named"), [(True, "with torch.compile"), (False, "with libraries only")])
def test_rows_say_whether_torch_compile_took_part(compiled: bool, named: str, tmp_path: Path) -> None:
    device = described("cuda", "h200")
    assert device is not None
    day = Day(tmp_path, stand_in_of(device), True, replace(DRY_SIZES, compiled_peers=compiled))
    rows = peers.in_turns(day, None, GEMM, [Entry(day.device, "tuned", Configuration.of("cuda.gemm", {}))], [])
    assert {row["compiled"] for row in rows} == {compiled}
    assert [row["method"] for row in rows] == [*peers_of(GEMM, compiled), "tuned"]
    assert list(summary(rows)) == [named]


def test_torch_compile_is_not_asked_on_a_cpu(tmp_path: Path) -> None:
    cpu = Device("opencl:cpu", "opencl", "x86-64", "opencl-c-1.2", threads=2)
    day = Day(tmp_path, cpu, True, replace(DRY_SIZES, compiled_peers=True))
    rows = peers.in_turns(day, None, GEMM, [Entry(cpu, "tuned", Configuration.of("opencl.gemm", {}))], [])
    assert {row["compiled"] for row in rows} == {False}
    assert [row["method"] for row in rows] == [*peers_of(GEMM, False), "tuned"]


@pytest.mark.parametrize(("backend", "early"), [("cuda", True), ("opencl", False)])
def test_torch_is_imported_early_for_gpus_only(backend: str, early: bool, tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    submitted: list[Any] = []

    class Pool:
        def __init__(self, count: int, mp_context: Any) -> None: ...

        def __enter__(self) -> Pool:
            return self

        def __exit__(self, *error: object) -> None: ...

        def submit(self, *call: Any) -> None:
            submitted.append(call[1:])

    monkeypatch.setattr(peers, "ProcessPoolExecutor", Pool)
    device = described("cuda", "h200")
    assert device is not None
    with peers.contest_process(Day(tmp_path, replace(device, backend=backend))):
        assert submitted == ([("torch",)] if early else [])


def test_more_problems_reopen_a_slice_of_peers_that_is_done(tmp_path: Path) -> None:
    device = described("cuda", "h200")
    assert device is not None
    day = Day(tmp_path, stand_in_of(device), True, replace(DRY_SIZES, peer_problems=2))
    chosen = gpu_day.chosen(["peers-conv"])

    def run(problems: int) -> list[dict[str, Any]]:
        day.sizes = replace(day.sizes, peer_problems=problems)
        state = DayState(day)
        gpu_day.reopen_peers(day, state, chosen)
        assert gpu_day.run_slices(day, state, chosen, 1.0, math.inf) == []
        assert DayState(day).get("peers-conv") == "done"
        rows: list[dict[str, Any]] = (day.result("peers-conv") or {})["rows"]
        return rows

    first = run(1)
    assert len({row["problem"] for row in first}) == 1
    turns = DayState(day).slices["peers-conv"]["turns"]
    assert run(1) == first
    assert DayState(day).slices["peers-conv"]["turns"] == turns
    more = run(2)
    assert more[:len(first)] == first
    assert len({row["problem"] for row in more}) == 2
