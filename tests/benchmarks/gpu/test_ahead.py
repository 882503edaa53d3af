"""Kernels and plans of a GPU day that are prepared while the device measures."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.gpu.ahead import KernelsAhead, PlansAhead, stopping
from benchmarks.gpu.checks.sanitizer import run_bounded
from benchmarks.gpu.day import Day
from seqtune.errors import KernelError
from seqtune.kernels.devices.accelerators import described
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.cuda import cubins_ahead

REFUSES = """
import json, sys
sys.stdin.readline()
for line in sys.stdin:
    with open({path!r}, "a") as file:
        file.write(json.loads(line)["key"] + "\\n")
    print(json.dumps({{"key": json.loads(line)["key"], "compiled": False}}), flush=True)
"""


def test_each_kernel_is_compiled_once_and_each_plan_chosen_once(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiled = tmp_path / "compiled.txt"
    monkeypatch.setattr(cubins_ahead, "PROGRAM", ("-c", REFUSES.format(path=str(compiled))))
    device = described("cuda", "h200")
    assert device is not None
    problems = [Problem.make("gemm", m=m, n=64, k=64) for m in (64, 128, 256)]
    asked: list[Problem] = []

    def choose(problem: Problem) -> tuple[Configuration, ...]:
        asked.append(problem)
        if problem == problems[2]:
            raise KernelError("planted")
        space = SearchSpace(kernel("cuda.gemm"), problem, device)
        return tuple(space[row] for row in range(4))

    kernels = KernelsAhead(Day(tmp_path, device), device)
    plans = PlansAhead(kernels, choose)
    with stopping(plans, kernels):
        for most in (2, 4):
            plans.start(problems[:2], most)
            assert [len(plans.plan(problem)) for problem in problems[:2]] == [4, 4]
        plans.start(problems[2:], 4)
        with pytest.raises(KernelError, match="planted"):
            plans.plan(problems[2])
    assert asked == problems
    keys = compiled.read_text().split()
    assert len(keys) == len(set(keys)) > 0


def test_a_dry_run_compiles_nothing(tmp_path: Path) -> None:
    device = described("cuda", "h200")
    assert device is not None
    kernels = KernelsAhead(Day(tmp_path, device, dry=True), device)
    with stopping(kernels):
        configuration = Configuration.of("cuda.gemm", kernel("cuda.gemm").default)
        assert kernels.start(Problem.make("gemm", m=64, n=64, k=64), [configuration]) == []


def test_a_tool_that_hangs_is_ended_with_the_program_it_watches() -> None:
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    assert run_bounded([sys.executable, "-c", program], "", 1.0) == ("the run took too long", 124)
    assert run_bounded([sys.executable, "-c", "print(input())"], "heard", 30.0) == ("heard\n", 0)
