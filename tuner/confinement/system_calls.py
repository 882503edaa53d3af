"""SystemCalls: a filter (seccomp) that refuses this process and its children some system calls.

The calls are those of `system_calls.txt`, some by their arguments (below), and all calls of programs for another
machine. The filter is a program for the kernel's packet filter, as linux/seccomp.h and linux/bpf_common.h define it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

from seqtune.kernels.files import sections

_NO_NEW_PRIVILEGES, _SET_FILTER, _FILTER = 38, 22, 2  # PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER
_CAPABILITIES = 0x20080522  # _LINUX_CAPABILITY_VERSION_3: two words each, effective, permitted and inheritable ones
_FILES = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH: in a container, root reads files of other users
# Load a word; jump if ==, >=, or a bit is common; return.
_LOAD, _EQUAL, _LEAST, _COMMON, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE, _ABSENT = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
_FOREIGN = 0x40000000  # numbers from here on are those of x32 programs on x86-64; other systems have none so large
_NUMBER, _MACHINE, _FIRST, _SECOND = 0, 4, 16, 24  # offsets of the words about a call; arguments: their lower halves

_MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # in linux/audit.h
# machine -> numbers of clone, clone3, prlimit64 and ioctl. sched_setaffinity stays: PoCL pins its threads with it.
_ARGUED = {"x86_64": (56, 435, 302, 16), "aarch64": (220, 435, 261, 29)}
_TABLE = [line.split() for line in sections(__file__, "system_calls.txt")["refused"].splitlines()]
REFUSED = {machine: {call: int(numbers[column]) for call, *numbers in _TABLE[1:] if numbers[column] != "-"}
           for column, machine in enumerate(_TABLE[0][1:])}  # machine -> call -> number
_NAMESPACES = 0x7E020000  # flags of clone: CLONE_NEW*
# FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR: attributes of a file; TIOCSTI, TIOCLINUX: type into a terminal
_REQUESTS = (0x40086602, 0x401C5820, 0x5412, 0x541C)


def forbid_privileges() -> None:
    """Let no program gain privileges (setuid), and give up a root user's capabilities except access to files.

    Linux demands the first before it takes a filter or access rules from a process without privileges.
    """
    if sys.platform == "linux":
        system = ctypes.CDLL(None)
        system.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        rights = 0 if os.geteuid() else _FILES
        system.capset(struct.pack("Ii", _CAPABILITIES, 0), struct.pack("6I", rights, rights, 0, 0, 0, 0))


def forbid_calls() -> bool:
    """Set the filter. Returns whether it holds: False on another system or machine."""
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        return False
    program = filter_program(platform.machine())
    code = ctypes.create_string_buffer(program)
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code)))
    return bool(ctypes.CDLL(None).prctl(_SET_FILTER, _FILTER, head, 0, 0) == 0)


def filter_program(machine: str) -> bytes:
    """The filter's program for a machine: instructions of 8 bytes; a jump skips at most 255."""
    clone, clone3, limits, request = _ARGUED[machine]
    numbers = tuple(REFUSED[machine].values())
    lines = [_line(_LOAD, _MACHINE), _line(_EQUAL, _MACHINES[machine], then=1), _line(_RETURN, _REFUSE),
             _line(_LOAD, _NUMBER), _line(_LEAST, _FOREIGN, otherwise=1), _line(_RETURN, _REFUSE),
             _line(_EQUAL, clone3, otherwise=1), _line(_RETURN, _ABSENT),  # flags out of reach: libraries take clone
             *_refuse_if(clone, _FIRST, _COMMON, (_NAMESPACES,)),
             *_refuse_if(limits, _FIRST, _LEAST, (1,)),  # a process other than 0, which is the caller
             *_refuse_if(request, _SECOND, _EQUAL, _REQUESTS)]
    lines += [_line(_EQUAL, number, then=len(numbers) - index) for index, number in enumerate(numbers)]
    return b"".join([*lines, _line(_RETURN, _ALLOW), _line(_RETURN, _REFUSE)])


def _refuse_if(call: int, argument: int, test: int, values: tuple[int, ...]) -> list[bytes]:
    """Refuse a call if its argument passes the test with one of the values, otherwise allow it."""
    tests = [_line(test, value, then=len(values) - index) for index, value in enumerate(values)]
    return [_line(_EQUAL, call, otherwise=len(tests) + 3), _line(_LOAD, argument), *tests,
            _line(_RETURN, _ALLOW), _line(_RETURN, _REFUSE)]


def _line(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("HBBI", code, then, otherwise, value)
