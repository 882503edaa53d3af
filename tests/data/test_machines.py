"""Devices of several machines in one data set, and the machines of the shipped data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from seqtune.data.dataset import Dataset
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.data.shipped_machines import is_new_cpu, shipped_devices
from seqtune.errors import DeviceError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem

HERE = Device("test:1", "test", "paper", "none", model="T", toolchain="t1", l3_bytes=1 << 20)
PROBLEM = Problem.make("gemm", m=3, n=4, k=5)


def measured(path: Path, device: Device, *seconds: float) -> Dataset:
    """A data set with a trial for each time."""
    with Journal(path) as journal:
        journal.add_device(device)
        for tile, time in enumerate(seconds):
            journal.add(Record(PROBLEM, device.key, 1, Configuration.of("test.k", {"tile": tile}), "t1",
                               Measurement(Status.CORRECT, (time,)), machine=device.fingerprint))
        return Dataset.from_journal(journal, {"machine": f"L3 {device.l3_bytes}"})


def test_a_capability_that_only_one_file_of_a_machine_knows_is_kept(tmp_path: Path) -> None:
    able = replace(HERE, extra=(("bf16_dots", 1),), peak_gflops=9.0)
    for first, second in ((HERE, able), (able, HERE)):
        folder = tmp_path / str(first.peak_gflops)
        folder.mkdir()
        both = measured(folder / "a", first, 1.0).merge(measured(folder / "b", second, 2.0, 3.0))
        assert both.devices == {HERE.key: replace(first, extra=able.extra)}


def test_machines_that_share_a_key_are_kept_apart(tmp_path: Path) -> None:
    there = replace(HERE, l3_bytes=1 << 25)
    assert there.key == HERE.key
    both = measured(tmp_path / "a", HERE, 1.0, 2.0).merge(measured(tmp_path / "b", there, 0.1, 0.2, 0.3))
    assert [device.l3_bytes for device in both.devices.values()] == [1 << 25, 1 << 20]
    assert all(key == device.key for key, device in both.devices.items())
    assert sorted(both.on(HERE.key).rows["seconds"]) == [1.0, 2.0]
    other, = (key for key in both.devices if key != HERE.key)
    assert sorted(both.on(other).rows["seconds"]) == pytest.approx([0.1, 0.2, 0.3])
    assert both.provenance == {"machine": f"L3 {1 << 20}; L3 {1 << 25}"}
    both.write(tmp_path / "both.parquet")
    assert Dataset.read(tmp_path / "both.parquet").devices == both.devices
    assert len(both.merge(measured(tmp_path / "c", HERE, 1.0, 2.0))) == len(both)  # the same trials again


def test_a_name_that_machines_share_means_the_one_with_most_rows_and_a_label_any(tmp_path: Path) -> None:
    there = replace(HERE, architecture="stone")
    both = measured(tmp_path / "a", HERE, 1.0).merge(measured(tmp_path / "b", there, 0.1, 0.2))
    assert both.device("test:1") == there
    assert both.device("test:1 paper") == HERE
    assert both.named("test:1") == [there.key, HERE.key]
    with pytest.raises(DeviceError, match="the data set has test:1 stone, test:1 paper"):
        both.device("test:2")


def test_a_cpu_is_new_by_its_architecture_and_its_caches() -> None:
    shipped = shipped_devices()
    assert {"znver5", "rocketlake"} <= {device.architecture for device in shipped}
    known = next(device for device in shipped if device.backend == "llvm")
    assert not is_new_cpu([known])
    assert not is_new_cpu([])
    assert not is_new_cpu([replace(known, backend="opencl", architecture="stone")])
    assert is_new_cpu([replace(known, architecture="stone")])
    assert is_new_cpu([replace(known, l2_bytes=3 << 20)])
