"""Discovery: devices are found by name, family or number; a broken backend does not disable the others."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType

import pytest

from seqtune.errors import DeviceError, UnavailableError
from seqtune.kernels.devices.device import Device
from seqtune.tuner.backends.discovery import Discovery, described

BASE = Device("one:avx2:2", "one", "paper", "avx2")
HERE = [replace(BASE, name=name) for name in ("one:avx512:2", "one:avx512:1", "one:avx2:2", "one:avx2:1")]


def module(monkeypatch: pytest.MonkeyPatch, name: str, present: object, reason: str | None = None,
           **attributes: object) -> str:
    backend = ModuleType(name)
    vars(backend).update(attributes)

    def find() -> object:
        if isinstance(present, Exception):
            raise present
        return present

    backend.devices = find  # type: ignore[attr-defined]
    backend.unavailable = lambda: reason  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, name, backend)
    return name


@pytest.fixture
def discovery(monkeypatch: pytest.MonkeyPatch) -> Discovery:
    return Discovery(table(monkeypatch))


def table(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    return {
        "one": module(monkeypatch, "fake_one", HERE),
        "two": module(monkeypatch, "fake_two", [], "no driver"),
        "three": module(monkeypatch, "fake_three", RuntimeError("the driver\nbroke")),
        "four": "no_such_module_here",
        "five": module(monkeypatch, "fake_five", UnavailableError("ld is missing; install binutils")),
        "six": module(monkeypatch, "fake_six", []),
        "seven": module(monkeypatch, "fake_seven", [replace(BASE, name="seven:gpu", backend="seven")]),
    }


def test_every_backend_is_searched_and_a_broken_one_does_not_disable_the_others(discovery: Discovery) -> None:
    assert [device.name for device in discovery.devices()] == [*(device.name for device in HERE), "seven:gpu"]
    assert discovery.why_unavailable() == {
        "two": "no driver", "three": "RuntimeError: the driver broke", "four": "no_such_module_here is not installed",
        "five": "ld is missing; install binutils", "six": "no device found"}


@pytest.mark.parametrize(("name", "wanted"), [
    ("one:avx2:1", "one:avx2:1"), ("one:avx2", "one:avx2:2"), ("one", "one:avx512:2"), ("one:0", "one:avx512:2"),
    ("one:3", "one:avx2:1"), (" ONE:AVX2:1 ", "one:avx2:1"), ("seven:0", "seven:gpu")])
def test_a_device_is_found_by_name_family_or_number(name: str, wanted: str, discovery: Discovery) -> None:
    assert discovery.find(name).name == wanted


@pytest.mark.parametrize("name", ["one:4", "one:avx", "one:avx2:3", "one:-1", "nine:0", "", "one:" + "9" * 9, "0"])
def test_an_unknown_device_is_refused_with_those_found(name: str, discovery: Discovery) -> None:
    with pytest.raises(DeviceError) as caught:
        discovery.find(name)
    assert str(caught.value).startswith(f"no device {name!r}; found one:avx512:2, one:avx512:1")
    assert "seven:gpu (seqtune devices lists them)" in str(caught.value)


def test_a_backend_may_find_devices_by_name_also_those_that_it_does_not_list(monkeypatch: pytest.MonkeyPatch) -> None:
    other, backends = replace(BASE, name="one:avx2:7"), table(monkeypatch)
    module(monkeypatch, "fake_one", HERE, named=lambda name: other if name == other.name else None)
    discovery = Discovery(backends, {"one": "fake_one:named"})
    assert discovery.find(" ONE:avx2:7") is other
    assert discovery.find("one:0") is HERE[0]
    with pytest.raises(DeviceError, match="no device 'one:avx2:8'; found one:avx512:2"):
        discovery.find("one:avx2:8")


def test_an_unavailable_backend_says_why(discovery: Discovery) -> None:
    with pytest.raises(DeviceError, match="no device 'two:0': two is unavailable here: no driver"):
        discovery.find("two:0")


def test_a_gpu_of_the_table_is_found_without_being_here_and_nothing_runs_on_it(discovery: Discovery) -> None:
    h200 = discovery.find("cuda:H200")
    assert (h200.name, h200.architecture, h200.compute_units) == ("cuda:h200", "sm_90", 132)
    assert discovery.find("triton:mi300x").compute_units == 304
    assert h200 in described()
    with pytest.raises(DeviceError, match="cuda:h200 is not in this machine; one can predict"):
        discovery.check_present(h200)
    discovery.check_present(HERE[0])
    with pytest.raises(DeviceError, match="name the backend, too: cuda:h200 or triton:h200"):
        discovery.find("H200")
    with pytest.raises(DeviceError, match=r"no device 'cuda:\.\./h200'"):
        discovery.find("cuda:../h200")


def test_a_gpu_that_is_here_is_present_and_hides_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    real = replace(BASE, name="cuda:h200", backend="cuda")
    discovery = Discovery({"cuda": module(monkeypatch, "fake_cuda", [real])})
    assert discovery.find("cuda:h200") == discovery.find("cuda") == discovery.find("cuda:0") == real
    discovery.check_present(real)
    assert discovery.find("cuda:l4").name == "cuda:l4"
    with pytest.raises(DeviceError, match="cuda:l4 is not in this machine"):
        discovery.check_present(discovery.find("cuda:l4"))


@pytest.mark.parametrize(("name", "near"), [
    ("cuda:h2000", "cuda:h200"), ("cuda:rtx4090ti", "cuda:rtx-4090"), ("triton:mi300", "triton:mi300x")])
def test_an_unknown_gpu_is_refused_with_names_like_it(name: str, near: str, discovery: Discovery) -> None:
    with pytest.raises(DeviceError, match=f"no device {name!r}; described GPUs are .*{near}.*--all"):
        discovery.find(name)


@pytest.mark.parametrize(("name", "described"), [
    ("cuda:mi300x", "triton:mi300x"), ("rocm:mi300x", "triton:mi300x"), ("hip:h200", "cuda:h200 and triton:h200")])
def test_a_gpu_that_another_backend_has_is_refused_with_its_name_there(
        name: str, described: str, discovery: Discovery) -> None:
    with pytest.raises(DeviceError, match=f"no device {name!r}; this GPU is described as {described}$"):
        discovery.find(name)
