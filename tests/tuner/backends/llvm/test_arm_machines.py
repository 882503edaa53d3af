"""Facts of an ARM CPU: its instructions, its fast cores and its caches, from what the systems say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from seqtune.kernels.devices.device import CAPABILITIES
from seqtune.tuner.backends.llvm import cores, facts
from seqtune.tuner.backends.llvm.arm_features import features_of, is_arm
from seqtune.tuner.backends.llvm.compiler import INSTRUCTION_SETS, capabilities, flags_for, instruction_sets, text_for

# HWCAP and HWCAP2 as QEMU's processors have them.
A53, A76, MAX = (0x8FB, 0), (0x119FFF, 0), (0xECFFFFFB, 0x7F877FFF)


def test_linux_words_tell_the_features() -> None:
    small, large, newest = (features_of(*words) for words in (A53, A76, MAX))
    assert {name for name, has in small.items() if has} == {"neon"}
    assert {"fullfp16", "dotprod", "lse", "rdm"} <= {name for name, has in large.items() if has}
    assert not large["sve"]
    assert all(newest.values())
    assert features_of(0, 0)["neon"]  # every ARM CPU of 64 bits


@pytest.mark.parametrize(("words", "bits", "names"), [
    (A53, 0, ["neon"]), (MAX, 128, ["neon"]), (MAX, 256, ["sve256", "neon"]), (MAX, 512, ["sve512", "neon"]),
    (MAX, 1024, ["neon"])])
def test_scalable_vectors_count_where_their_length_is_that_of_a_set(
        words: tuple[int, int], bits: int, names: list[str]) -> None:
    assert instruction_sets(features_of(*words), bits) == names


def test_capabilities_are_facts_of_the_device() -> None:
    assert capabilities("neon", features_of(*A53)) == ()
    assert dict(capabilities("sve256", features_of(*MAX))) == {"arm_fp16": 1, "arm_bf16": 1, "arm_i8mm": 1}
    assert {fact for name in INSTRUCTION_SETS for fact, _ in capabilities(name, features_of(*MAX))} <= set(CAPABILITIES)


def test_each_set_is_compiled_with_its_own_registers() -> None:
    features = features_of(*MAX)
    assert {"-sve", "-sve2", "+neon"} <= set(flags_for("neon", features))
    assert "+sve" in flags_for("sve512", features)
    text = "define void @f(ptr %x) nounwind {\n  ret void\n}\ndefine internal void @g() {\n  ret void\n}"
    assert text_for("neon", text) is text
    assert text_for("sve256", text).count("vscale_range(2,2) {") == 2
    assert text_for("sve512", text).startswith("define void @f(ptr %x) nounwind vscale_range(4,4) {\n")


@pytest.mark.parametrize(("machine", "arm"), [
    ("aarch64", True), ("arm64", True), ("ARM64", True), ("x86_64", False), ("AMD64", False), ("armv7l", False)])
def test_machines_with_arm_cpus_are_known_by_the_systems_words(machine: str, arm: bool) -> None:
    assert is_arm(machine) is arm


def system(folder: Path, speeds: dict[str, list[int]], siblings: bool = False) -> Path:
    """A stand-in for Linux's folder about CPUs: file -> its number for each CPU."""
    for name, numbers in speeds.items():
        for cpu, number in enumerate(numbers):
            path = folder / f"cpu{cpu}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{number}\n")
            topology = folder / f"cpu{cpu}" / "topology" / "thread_siblings_list"
            topology.parent.mkdir(exist_ok=True)
            topology.write_text(f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}\n" if siblings else f"{cpu}\n")
    return folder


@pytest.mark.parametrize(("speeds", "expected"), [
    ({"cpu_capacity": [446, 446, 446, 446, 1024, 1024]}, [4, 5]),  # four small cores, two large ones
    ({"cpu_capacity": [1024, 325, 325, 870, 870, 325]}, [0, 3, 4]),  # three kinds
    ({"cpufreq/cpuinfo_max_freq": [5_500_000, 5_800_000, 4_000_000, 4_000_000, 0, 0]}, [0, 1]),
    ({"cpu_capacity": [446, 1024] * 3, "cpufreq/cpuinfo_max_freq": [1] * 6}, [1, 3, 5]),
    ({"other": [0] * 6}, list(range(6)))])  # the system does not say it
def test_threads_run_on_the_fast_cores(speeds: dict[str, list[int]], expected: list[int], tmp_path: Path,
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(cores, "usable_processors", lambda: set(range(6)))
    assert cores.usable_cpus(system(tmp_path, speeds)) == expected
    monkeypatch.setattr(cores, "usable_processors", lambda: {1, 2})  # of what the process may use, the fastest
    assert set(cores.usable_cpus(tmp_path)) <= {1, 2}


def test_on_macos_the_fast_cores_and_their_caches_count(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"hw.perflevel0.physicalcpu": 4, "hw.perflevel0.l1dcachesize": 128 << 10, "hw.l1dcachesize": 64 << 10,
                 "hw.perflevel0.l2cachesize": 12 << 20}
    number = lambda name: variables.get(name, 0)  # noqa: E731
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(cores, "usable_processors", lambda: set(range(8)))
    monkeypatch.setattr(cores, "mac_number", number)
    assert cores.usable_cpus() == [0, 1, 2, 3]
    assert facts.mac_caches(number) == {1: 128 << 10, 2: 12 << 20, 3: 0}
