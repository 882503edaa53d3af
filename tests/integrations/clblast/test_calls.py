"""CLBlast's executables: right results for every way to store operands, and parameters that are set once."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from seqtune.data.record import Status
from seqtune.errors import UnavailableError
from seqtune.integrations.clblast.backend import calls as calls_module
from seqtune.integrations.clblast.backend import shared_library
from seqtune.integrations.clblast.backend.calls import DIRECT
from seqtune.integrations.clblast.backend.shared_library import CLBlast, CLBlastError, load_clblast
from seqtune.integrations.clblast.kernels import xgemm, xgemm_direct
from seqtune.integrations.clblast.kernels.library import KERNELS
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Task
from seqtune.tuner.backends.backend import build_executable
from seqtune.tuner.backends.opencl.backend import OpenCLBackend
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.measuring.timing import Options, check, check_and_time, prepare
from tests.support.oddities import CPU, GPU

FAMILIES = (xgemm.KERNEL, xgemm_direct.KERNEL)
ODD = Problem.make("gemm", m=33, n=20, k=17, trans_a="yes")
QUICK = {"GEMMK": 1, "MWG": 16, "NWG": 16, "MDIMC": 4, "NDIMC": 4, "VWM": 4, "VWN": 1, "KREG": 1}  # to compile


@pytest.fixture
def installed(backend: OpenCLBackend) -> OpenCLBackend:
    """An OpenCL backend on a machine with CLBlast."""
    try:
        load_clblast()
    except UnavailableError as error:
        pytest.skip(str(error))
    return backend


@pytest.mark.device
def test_both_kernels_compute_products_of_odd_sizes_and_turned_operands(installed: OpenCLBackend) -> None:
    for family, settings in ((xgemm.KERNEL, QUICK), (xgemm_direct.KERNEL, dict(xgemm_direct.KERNEL.default))):
        space = SearchSpace(family, ODD, installed.device)
        executable = build_executable(installed, ODD, family, space.nearest(settings))
        measurement = check_and_time(executable, *prepare(ODD), Options(samples=2))
        executable.close()
        assert measurement.status is Status.CORRECT, measurement.message
        assert measurement.error is not None
        assert measurement.error < 1e-5


@pytest.mark.device
def test_a_product_that_is_not_written_and_a_write_outside_are_found(installed: OpenCLBackend) -> None:
    space = SearchSpace(xgemm.KERNEL, ODD, installed.device)
    executable = build_executable(installed, ODD, xgemm.KERNEL, space.nearest(QUICK))
    executable.run = lambda: None  # type: ignore[method-assign]
    result, _ = check(executable, *prepare(ODD))
    assert result.status is Status.CORRECTNESS
    assert "NaN" in result.message
    executable.poison()
    spoiled = np.zeros(1, np.float32)
    installed.cl.enqueue_copy(installed.queue, executable.buffers._buffers["y"].memory, spoiled)  # type: ignore[attr-defined]
    assert executable.overrun() == "y"
    executable.close()


@pytest.mark.device
def test_the_library_tells_its_parameters_and_takes_others(installed: OpenCLBackend) -> None:
    library, device = load_clblast(), int(installed.handle.int_ptr)
    before = library.retrieve(device, DIRECT)
    assert set(before) == set(xgemm_direct.KERNEL.by_name)
    library.override(device, DIRECT, {**before, "WGD": 64})
    assert library.retrieve(device, DIRECT)["WGD"] == 64
    library.override(device, DIRECT, before)
    with pytest.raises(CLBlastError, match="a parameter is missing"):
        library.override(device, DIRECT, {"WGD": 8})
    calls_module._Process.current.clear()  # what the module remembers is no longer what the library uses


@pytest.mark.device
def test_the_worker_measures_configurations_of_the_library(installed: OpenCLBackend) -> None:
    task = Task.of(ODD, installed.device, FAMILIES)
    with Runner(installed.device, kernels=KERNELS) as runner:
        (measured,) = runner.measure(ODD, [task.default], Options(samples=1))
    assert measured[1].status is Status.CORRECT


class Recorder:
    """A library that writes down the calls of its functions and returns a status."""

    def __init__(self, status: int = 0) -> None:
        self.status = status
        self.called: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        def function(*arguments: Any) -> int:
            self.called.append((name, arguments))
            return self.status

        return function


def test_a_status_of_the_library_is_an_error_with_its_meaning() -> None:
    with pytest.raises(CLBlastError, match=r"CLBlastSgemm returned -2046: not enough local memory"):
        CLBlast(Recorder(-2046)).sgemm(1, (False, False), (1, 1, 1), (1.0, 0.0), (1, 1, 1))


def test_a_machine_without_the_library_gets_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    load_clblast.cache_clear()
    try:
        with pytest.raises(UnavailableError, match="apt install libclblast1"):
            load_clblast()
    finally:
        load_clblast.cache_clear()
    assert shared_library.NAMES


@pytest.mark.parametrize("device", [CPU, GPU], ids=["cpu", "gpu"])
def test_no_configuration_is_one_that_the_kernels_cannot_run(device: Any) -> None:
    """The divisions of the kernels' text are exact, and their loops have at least one turn."""
    space = SearchSpace(xgemm.KERNEL, ODD, device)
    columns = space.columns()
    first = columns["GEMMK"] == 0
    items = columns["MDIMC"] * columns["NDIMC"]
    assert (columns["MWG"] % (columns["MDIMC"] * columns["VWM"]) == 0).all()
    assert (columns["KWG"] % np.where(first, items // columns["MDIMA"], 1) == 0).all()
    assert (columns["KREG"] % np.where(first, 1, columns["VWN"]) == 0).all()
    assert (columns["MWG"] == columns["NWG"])[~first].all()
    assert (items <= device.max_work_group).all()
    direct = SearchSpace(xgemm_direct.KERNEL, ODD, device).columns()
    assert (direct["WGD"] % direct["KWID"] == 0).all()
    assert (direct["MDIMCD"] * direct["NDIMCD"] // direct["MDIMAD"] > 0).all()
    assert (direct["local_bytes"] <= device.local_memory).all()
