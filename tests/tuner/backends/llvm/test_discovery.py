"""Devices of this CPU: all of its cores, one of them, and any number between by its name."""

from __future__ import annotations

import pytest

from seqtune.errors import DeviceError
from seqtune.kernels.devices.device import MEASURED
from seqtune.tuner.backends.llvm import discovery
from seqtune.tuner.backends.llvm.compiler import instruction_sets
from seqtune.tuner.backends.llvm.discovery import CpuDevices

pytestmark = pytest.mark.skipif(discovery.unavailable() is not None, reason=str(discovery.unavailable()))


class FourCores(CpuDevices):
    """A CPU with four cores, whose devices have the same rates; it notes those that were measured."""

    def __init__(self) -> None:
        self.measured: list[tuple[str, int]] = []
        super().__init__(lambda: 4, self._rates)

    def _rates(self, instruction_set: str, threads: int) -> dict[str, float]:
        self.measured.append((instruction_set, threads))
        return dict.fromkeys(MEASURED, 1.0)


def test_some_of_the_cores_are_a_device_that_is_found_by_its_name() -> None:
    cpu, name = FourCores(), instruction_sets()[-1]
    device = cpu.device_of(f"llvm:{name}:3")
    assert device is not None
    assert (device.threads, device.compute_units, device.instruction_set) == (3, 3, name)
    assert device.name not in [listed.name for listed in cpu.devices()]
    for wrong in ("-1", "x", "3:3", "\u0663"):
        assert cpu.device_of(f"llvm:{name}:{wrong}") is None
    for wrong in ("5", "0", "1" * 9):
        with pytest.raises(DeviceError, match=r"no device .*; this machine has 4 cores for 1 to 4 threads"):
            cpu.device_of(f"llvm:{name}:{wrong}")
    assert cpu.device_of("llvm:none:1") is None


@pytest.mark.parametrize(("name", "index"), [
    ("llvm", 0), ("llvm:0", 0), (f"llvm:{instruction_sets()[0]}" if instruction_sets() else "", 0), ("llvm:1", 1)])
def test_no_other_device_than_the_named_one_is_measured(name: str, index: int) -> None:
    cpu = FourCores()
    device = cpu.device_of(name)
    assert device is not None
    assert cpu.measured == [(device.instruction_set, device.threads)]
    assert device == cpu.devices()[index]
    assert len(cpu.measured) == len(cpu.devices()) == 2 * len(instruction_sets())
