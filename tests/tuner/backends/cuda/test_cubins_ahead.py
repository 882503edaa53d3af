"""Kernels that are compiled on all cores, in a process of their own, before a worker asks for them."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from seqtune.errors import UnavailableError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.backend import BuildError
from seqtune.tuner.backends.cuda import compiler, cubins_process
from seqtune.tuner.backends.cuda.compiler import CubinCompiler
from seqtune.tuner.backends.cuda.cubins_ahead import CompilerProcess, CubinsAhead, is_ours
from tests.support.devices import described_gpu
from tests.support.paths import ROOT

H100 = described_gpu("cuda", "h100")
PROBLEM = Problem.make("gemm", m=64, n=64, k=64)
SECONDS = 30.0  # that an answer may take on a busy machine
REFUSES = """
import json, sys
sys.stdin.readline()
for line in sys.stdin:
    print(json.dumps({"key": json.loads(line)["key"], "compiled": False}), flush=True)
"""
CRASHES = "import os, sys; sys.stdin.readline(); sys.stdin.readline(); os.abort()"
HANGS = "import time; time.sleep(600)"  # it does not even read its input
BABBLES = "print('what?', flush=True); import time; time.sleep(600)"


def configurations(count: int) -> list[Configuration]:
    space = SearchSpace(kernel("cuda.gemm"), PROBLEM, H100)
    return [space[row * 97 % len(space)] for row in range(count)]


def results_of(futures: Sequence[Future[bool]]) -> list[bool]:
    _, late = wait(futures, timeout=SECONDS)
    assert not late
    return [future.result() for future in futures]


def test_a_source_is_compiled_once_and_failures_are_left_to_the_worker() -> None:
    cubins, chosen = CubinsAhead(H100, ("-c", REFUSES)), configurations(3)
    stray = [Configuration.of("cuda.gemm", {}), Configuration.of("stranger.k", {})]  # without a source, not known here
    compiling = cubins.start(PROBLEM, [*chosen, *stray])
    assert 0 < len(compiling) == len(set(compiling)) <= 3
    assert results_of(compiling) == [False] * len(compiling)
    assert cubins.start(PROBLEM, chosen) == compiling
    cubins.stop()
    assert cubins.start(PROBLEM, chosen) == compiling  # after its end, too
    assert cubins.start(PROBLEM, stray) == []


@pytest.mark.parametrize("program", [CRASHES, "import sys; sys.exit(1)", BABBLES], ids=["crash", "exit", "babble"])
def test_a_process_that_ends_by_itself_is_the_last_one(program: str) -> None:
    cubins, chosen = CubinsAhead(H100, ("-c", program)), configurations(4)
    first = cubins.start(PROBLEM, chosen[:1])
    assert results_of(first) == [False]
    cubins.stop()
    later = cubins.start(PROBLEM, chosen)
    assert len(later) > 1
    assert all(future.done() and future.result() is False for future in later)


def test_a_process_that_hangs_is_killed_although_it_does_not_even_read() -> None:
    process = CompilerProcess(H100, ("-c", HANGS))
    compiling = process.compile("key", KernelSource("x" * 300_000))  # more than a pipe takes at once
    assert not compiling.done()
    assert process.kill()
    assert results_of([compiling, process.compile("later", KernelSource(""))]) == [False, False]


def test_a_caller_ends_although_its_process_hangs() -> None:
    program = f"""
from seqtune.tuner.backends.cuda.cubins_ahead import CubinsAhead
from tests.tuner.backends.cuda import test_cubins_ahead as tests
ahead = CubinsAhead(tests.H100, ("-c", {HANGS.replace("600", "20")!r}))
print(len(ahead.start(tests.PROBLEM, tests.configurations(1))))
"""
    began = time.monotonic()
    assert subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=ROOT, text=True,
                          timeout=SECONDS).stdout == "1\n"
    assert time.monotonic() - began < 20


def refuse_some(source: KernelSource) -> KernelSource:
    """Refuse the sources that say so, and fail by mistake on others."""
    if source.text == "refused":
        raise BuildError("planted")
    if source.text == "mistake":
        raise ZeroDivisionError
    return source


def test_the_process_answers_each_source_with_its_key() -> None:
    answers: list[dict[str, Any]] = []
    devices: list[Device] = []
    came = threading.Semaphore(0)

    def answer(message: dict[str, Any]) -> None:
        answers.append(message)
        came.release()

    def open_compiler(device: Device) -> Callable[[KernelSource], KernelSource]:
        devices.append(device)
        return refuse_some

    def lines() -> Iterator[str]:
        yield json.dumps(H100.to_json())
        for key, text in (("a", "right"), ("b", "refused"), ("c", "mistake")):
            yield json.dumps({"key": key, "text": text, "options": ["-x"]})
        for _ in range(3):
            assert came.acquire(timeout=SECONDS)

    cubins_process.serve(lines(), open_compiler, answer)
    assert devices == [H100]
    assert {entry["key"]: entry["compiled"] for entry in answers} == {"a": True, "b": False, "c": False}
    cubins_process.serve([], open_compiler, answer)
    assert len(devices) == 1


def test_what_was_compiled_ahead_is_in_the_cache_of_the_workers(monkeypatch: pytest.MonkeyPatch,
                                                                tmp_path: Path) -> None:
    try:
        compiler.version()
    except UnavailableError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cubins, (configuration,) = CubinsAhead(H100), configurations(1)
    assert results_of(cubins.start(PROBLEM, [configuration])) == [True]
    cubins.stop()

    def fail(*arguments: Any) -> Any:
        raise BuildError("compiled twice")

    assert CubinCompiler(H100, run=fail).steps(PROBLEM, kernel("cuda.gemm"), configuration)


def test_code_from_outside_is_left_to_the_worker_which_confines_it() -> None:
    ours = kernel("cuda.gemm")
    assert is_ours(ours)
    assert not is_ours(replace(ours, implementation="stranger:kernel"))
    assert not is_ours(replace(ours, implementation=object()))
