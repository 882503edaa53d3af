"""The filter of system calls: which calls it refuses, computed by running its program on descriptions of calls."""

from __future__ import annotations

import errno
import struct

import pytest

from seqtune.tuner.confinement.system_calls import REFUSED, filter_program

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
I386, X32 = 0x40000003, 0x40000000
ALLOWED, REFUSED_CALL, ABSENT = 0x7FFF0000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
CLONE = {"x86_64": 56, "aarch64": 220}
LIMITS = {"x86_64": 302, "aarch64": 261}
IOCTL = {"x86_64": 16, "aarch64": 29}
NEEDED = {"x86_64": {"read": 0, "write": 1, "open": 2, "mmap": 9, "fork": 57, "execve": 59, "rename": 82, "mkdir": 83,
                     "futex": 202, "openat": 257, "sched_setaffinity": 203},
          "aarch64": {"read": 63, "write": 64, "openat": 56, "mmap": 222, "execve": 221, "futex": 98}}


def verdict(machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    """Run the filter on a call and return its answer."""
    data = struct.pack("=II7Q", number, architecture or MACHINES[machine], 0, *(*arguments, *[0] * 6)[:6])
    lines = list(struct.iter_unpack("HBBI", filter_program(machine)))
    accumulator = at = 0
    while True:
        code, then, otherwise, value = lines[at]
        at += 1
        if code == 0x06:
            return int(value)
        if code == 0x20:
            (accumulator,) = struct.unpack_from("I", data, value)
        else:
            met = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: accumulator & value != 0}[code]
            at += then if met else otherwise


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_refuses_its_calls_and_allows_those_that_every_program_needs(machine: str) -> None:
    assert {name for name, number in REFUSED[machine].items() if verdict(machine, number) != REFUSED_CALL} == set()
    assert {name for name, number in NEEDED[machine].items() if verdict(machine, number) != ALLOWED} == set()
    assert {"fchmodat", "fchownat", "utimensat", "shmget", "keyctl", "ptrace", "bpf"} <= REFUSED[machine].keys()
    assert len(set(REFUSED[machine].values())) == len(REFUSED[machine])


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_refuses_programs_for_other_machines(machine: str) -> None:
    assert verdict(machine, 4, architecture=I386) == REFUSED_CALL
    assert verdict(machine, X32 | 1) == REFUSED_CALL


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_decides_some_calls_by_their_arguments(machine: str) -> None:
    clone, limits, ioctl = CLONE[machine], LIMITS[machine], IOCTL[machine]
    assert verdict(machine, clone, 0x3D0F00) == ALLOWED  # a thread
    assert verdict(machine, clone, 0x10000000 | 17) == REFUSED_CALL  # another user namespace
    assert verdict(machine, 435) == ABSENT  # clone3
    assert verdict(machine, limits, 0) == ALLOWED
    assert verdict(machine, limits, 1234) == REFUSED_CALL
    assert verdict(machine, ioctl, 0, 0x5401) == ALLOWED  # is it a terminal?
    assert verdict(machine, ioctl, 0, 0x5412) == verdict(machine, ioctl, 0, 0x40086602) == REFUSED_CALL
