"""Kernels that are compiled on all cores before a worker asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from seqtune.errors import UnavailableError
from seqtune.kernels.accelerators import described
from seqtune.kernels.device import Device
from seqtune.kernels.implementation import KernelSource
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.backend import BuildError
from seqtune.tuner.backends.cuda import ahead, compiler
from seqtune.tuner.backends.cuda.ahead import CubinsAhead, is_ours
from seqtune.tuner.backends.cuda.compiler import CubinCompiler
from seqtune.tuner.backends.image_cache import ImageCache
from seqtune.tuner.measuring import runner as runners
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.measuring.timing import Options
from tests.support import planted

PROBLEM = Problem.make("gemm", m=64, n=64, k=64)
DEVICE = described("cuda", "h100")


class RefusingCompiler:
    """Refuses every source, and keeps it."""

    refused: ClassVar[list[KernelSource]] = []

    def __init__(self, device: Device) -> None:
        self.device = device

    def compile(self, source: KernelSource) -> None:
        self.refused.append(source)
        raise BuildError("planted")


class AheadRecorder:
    """Stands in for CubinsAhead: it keeps what the runner gives it."""

    batches: ClassVar[list[list[Configuration]]] = []
    stopped: ClassVar[list[bool]] = []

    def __init__(self, device: Device) -> None:
        assert device.backend == "cuda"

    def start(self, problem: Problem, configurations: Sequence[Configuration]) -> list[Future[None]]:
        self.batches.append(list(configurations))
        return []

    def stop(self) -> None:
        self.stopped.append(True)


def configurations(count: int) -> list[Configuration]:
    assert DEVICE is not None
    space = SearchSpace(kernel("cuda.gemm"), PROBLEM, DEVICE)
    return [space[row * 97 % len(space)] for row in range(count)]


def test_a_source_is_compiled_once_and_failures_are_left_to_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "CubinCompiler", RefusingCompiler)
    monkeypatch.setattr(RefusingCompiler, "refused", [])
    assert DEVICE is not None
    cubins, chosen = CubinsAhead(DEVICE), configurations(3)
    stray = [Configuration.of("cuda.gemm", {}), Configuration.of("stranger.k", {})]  # without a source, not known here
    compiling = cubins.start(PROBLEM, [*chosen, *stray])
    wait([*compiling, *cubins.start(PROBLEM, chosen)], timeout=30)
    cubins.stop()
    assert 0 < len(compiling) == len(RefusingCompiler.refused) == len(set(RefusingCompiler.refused))
    assert all(future.exception() is None for future in compiling)


def test_what_was_compiled_ahead_is_in_the_cache_of_the_workers(monkeypatch: pytest.MonkeyPatch,
                                                                tmp_path: Path) -> None:
    try:
        compiler.version()
    except UnavailableError as error:
        pytest.skip(str(error))
    cache = ImageCache("cubin", tmp_path / "cubin")
    monkeypatch.setattr(ahead, "CubinCompiler", lambda device: CubinCompiler(device, cache))
    assert DEVICE is not None
    cubins, (configuration,) = CubinsAhead(DEVICE), configurations(1)
    wait(cubins.start(PROBLEM, [configuration]), timeout=60)
    cubins.stop()

    def fail(*arguments: Any) -> Any:
        raise BuildError("compiled twice")

    monkeypatch.setattr(compiler, "run_nvrtc", fail)
    cached = CubinCompiler(DEVICE, ImageCache("cubin", tmp_path / "cubin"))
    assert cached.phases(PROBLEM, kernel("cuda.gemm"), configuration)


def test_code_from_outside_is_left_to_the_worker_which_confines_it() -> None:
    ours = kernel("cuda.gemm")
    assert is_ours(ours)
    assert not is_ours(replace(ours, implementation="stranger:kernel"))
    assert not is_ours(replace(ours, implementation=object()))


def test_a_runner_of_a_cuda_device_compiles_a_batch_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("batches", "stopped"):
        monkeypatch.setattr(AheadRecorder, name, [])
    monkeypatch.setattr(runners, "CubinsAhead", AheadRecorder)
    batch = [planted.deed("good"), planted.deed("compile"), planted.deed("good", 1)]
    options = Options(samples=1)
    for device, batches in ((planted.DEVICE, []), (replace(planted.DEVICE, backend="cuda"), [batch])):
        with Runner(device, planted.BACKEND, planted.KERNELS, planted.PATH) as runner:
            assert [answered for answered, _ in runner.measure(planted.PROBLEM, batch, options)] == batch
            list(runner.measure(planted.PROBLEM, batch[:1], options))  # one kernel: the worker compiles it as fast
        assert AheadRecorder.batches == batches
    assert AheadRecorder.stopped == [True]
