"""Devices of this CPU: all of its cores, one of them, and any number between by its name."""

from __future__ import annotations

import pytest

from seqtune.errors import DeviceError
from seqtune.kernels.devices.device import MEASURED
from seqtune.tuner.backends import discovery
from seqtune.tuner.backends.llvm import backend as llvm
from seqtune.tuner.backends.llvm.compiler import instruction_sets

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason=str(llvm.unavailable()))


def test_some_of_the_cores_are_a_device_that_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    name = instruction_sets()[-1]
    known = llvm.devices()[-1]
    monkeypatch.setattr(llvm, "usable_cpus", lambda: [0, 0, 0, 0])
    monkeypatch.setattr(llvm, "measured_rates", lambda *_: {fact: getattr(known, fact) for fact in MEASURED})
    forget = (llvm._device.cache_clear, discovery._discover.cache_clear)
    for each in forget:
        each()
    try:
        device = discovery.find(f"llvm:{name}:3")
        assert (device.threads, device.compute_units, device.instruction_set) == (3, 3, name)
        assert device.name not in [listed.name for listed in llvm.devices()]
        for wrong in ("-1", "x", "3:3", "\u0663"):
            assert llvm.device_of(f"llvm:{name}:{wrong}") is None
        for wrong in ("5", "0", "1" * 9):
            with pytest.raises(DeviceError, match=r"no device .*; this machine has 4 cores for 1 to 4 threads"):
                discovery.find(f"llvm:{name}:{wrong}")
        assert llvm.device_of("llvm:none:1") is None
    finally:
        for each in forget:
            each()


@pytest.mark.parametrize("name", ["llvm", "llvm:0", f"llvm:{instruction_sets()[0]}" if instruction_sets() else "",
                                  "LLVM:1 "])
def test_no_other_device_than_the_named_one_is_measured(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    listed, measured = llvm.devices(), list[tuple[str, int]]()

    def rates(instruction_set: str, threads: int) -> dict[str, float]:
        measured.append((instruction_set, threads))
        return {fact: getattr(listed[0], fact) for fact in MEASURED}

    monkeypatch.setattr(llvm, "measured_rates", rates)
    forget = (llvm._device.cache_clear, discovery._discover.cache_clear)
    for each in forget:
        each()
    try:
        found = discovery.find(name)
        assert measured == [(found.instruction_set, found.threads)]
        assert found.name == listed[int(name.strip().endswith(":1"))].name
        assert [device.name for device in llvm.devices()] == [device.name for device in listed]
    finally:
        for each in forget:
            each()
