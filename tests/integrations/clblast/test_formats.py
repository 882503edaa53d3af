"""Export for CLBlast: what its tuners would write, and rows that its database takes, from measured times."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import seqtune
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.errors import MisuseError
from seqtune.integrations.clblast.kernels import xgemm, xgemm_direct
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from tests.support.oddities import GPU

SMALL, LARGE = (Problem.make("gemm", m=size, n=size, k=size) for size in (64, 640))
DEVICE = Device(**{**{name: getattr(GPU, name) for name in GPU.__dataclass_fields__}, "model": "Radeon Test"})


@pytest.fixture
def measured(journal: Journal) -> Callable[[], Path]:
    """A journal in which the direct kernel is faster for the small product and the other one for the large one."""
    journal.add_device(DEVICE)
    for problem, factor in ((SMALL, 1.0), (LARGE, 100.0)):
        for family, settings, seconds in (
                (xgemm.KERNEL, {"MWG": 64}, 2e-3 if problem == SMALL else 1e-3),
                (xgemm.KERNEL, {"MWG": 128}, 3e-3),
                (xgemm_direct.KERNEL, {"WGD": 32}, 1e-3 if problem == SMALL else 4e-3)):
            space = SearchSpace(family, problem, DEVICE)
            configuration = space.nearest({**dict(family.default), **settings})
            journal.add(Record(problem, DEVICE.key, family.version, configuration, "", Measurement(
                Status.CORRECT, (factor * seconds, 2 * factor * seconds)), run="random", machine=DEVICE.fingerprint))
    return lambda: journal.path


def files(folder: Path) -> dict[str, dict[str, Any]]:
    return {path.name: json.loads(path.read_text()) for path in folder.iterdir()}


def test_one_product_gives_the_files_of_three_tuners(measured: Callable[[], Path], tmp_path: Path) -> None:
    seqtune.export(tmp_path / "out", "clblast", journal=measured(), problem=LARGE)
    written = files(tmp_path / "out")
    assert set(written) == {"clblast_xgemm_2_32.json", "clblast_xgemm_direct_2_32.json", "clblast_gemm_routine_32.json"}
    content = written["clblast_xgemm_2_32.json"]
    assert content["arg_m"] == "640"
    assert content["precision"] == "32"
    assert content["device"] == "Radeon Test"
    first, second = content["results"]
    assert first["kernel"] == "Xgemm"
    assert first["time"] == pytest.approx(100.0)  # milliseconds
    assert first["parameters"]["MWG"] == 64
    assert first["parameters"]["PRECISION"] == 32
    assert set(first["parameters"]) == {*xgemm.KERNEL.by_name, "PRECISION"}
    assert second["time"] > first["time"]
    switch = written["clblast_gemm_routine_32.json"]["results"][0]["parameters"]["XGEMM_MIN_INDIRECT_SIZE"]
    assert switch <= 640
    assert "arg_m" not in written["clblast_gemm_routine_32.json"]


def test_all_products_together_give_the_best_mean_and_a_switch_between_them(measured: Callable[[], Path],
                                                                            tmp_path: Path) -> None:
    seqtune.export(tmp_path / "out", "clblast", journal=measured())
    written = files(tmp_path / "out")
    assert written["clblast_xgemm_2_32.json"]["arg_k"] == "1024"
    assert written["clblast_xgemm_2_32.json"]["results"][0]["parameters"]["MWG"] == 64
    switch = written["clblast_gemm_routine_32.json"]["results"][0]["parameters"]["XGEMM_MIN_INDIRECT_SIZE"]
    assert 64 < switch <= 640


def test_the_database_accepts_the_fields_of_every_file(measured: Callable[[], Path], tmp_path: Path) -> None:
    """The checks of `load_tuning_results` and the fields that it groups by."""
    seqtune.export(tmp_path / "out", "clblast", journal=measured(), problem=SMALL)
    for content in files(tmp_path / "out").values():
        results = content["results"]
        assert {result["kernel"] for result in results} == {content["best_kernel"]}
        assert all(content["precision"] == str(result["parameters"]["PRECISION"]) for result in results)
        assert re.sub(r"_\d+", "", str(content["kernel_family"])) in ("xgemm", "xgemm_direct", "gemm_routine")
        assert {"clblast_device_name", "clblast_device_architecture", "device_core_clock", "device_compute_units",
                "clblast_device_vendor", "clblast_device_type"} <= set(content)


def test_a_product_without_times_and_a_journal_without_clblast_are_refused(
        measured: Callable[[], Path], tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="no time of gemm m=8"):
        seqtune.export(tmp_path / "out", "clblast", journal=measured(), problem="gemm m=8 n=8 k=8")
    with Journal(tmp_path / "empty.sqlite"):
        pass
    with pytest.raises(MisuseError, match="--library clblast"):
        seqtune.export(tmp_path / "out", "clblast", journal=tmp_path / "empty.sqlite")
    assert not (tmp_path / "out").exists()
