"""SystemCalls: a filter (seccomp) that refuses this process and its children some system calls.

Refused are sockets, access to other processes' memory, and leaving the process group, so that a signal to the group
ends all its processes. The filter is a program for the kernel's packet filter, as linux/seccomp.h and
linux/bpf_common.h define it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

_NO_NEW_PRIVILEGES, _SET_FILTER, _FILTER = 38, 22, 2  # PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER
_CAPABILITIES = 0x20080522  # _LINUX_CAPABILITY_VERSION_3: two words each, effective, permitted and inheritable ones
_FILES = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH: in a container, root reads files of other users
_LOAD, _EQUAL, _LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # load a word, jump if ==, jump if >=, return
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_FOREIGN = 0x40000000  # numbers from here on are those of x32 programs on x86-64; other systems have none so large
_NUMBER, _MACHINE = 0, 4  # offsets of the words about a call

# machine -> (its number in linux/audit.h, those of socket, socketpair, ptrace, process_vm_readv, process_vm_writev,
# setpgid and setsid)
_CALLS = {"x86_64": (0xC000003E, (41, 53, 101, 310, 311, 109, 112)),
          "aarch64": (0xC00000B7, (198, 199, 117, 270, 271, 154, 157))}
_RINGS = 425  # io_uring_setup, the same number on every machine: its requests open sockets, too


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
    if sys.platform != "linux" or platform.machine() not in _CALLS:
        return False
    machine, calls = _CALLS[platform.machine()]
    program = _program(machine, (*calls, _RINGS))
    code = ctypes.create_string_buffer(program)
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code)))
    return bool(ctypes.CDLL(None).prctl(_SET_FILTER, _FILTER, head, 0, 0) == 0)


def _program(machine: int, calls: tuple[int, ...]) -> bytes:
    """The filter's program: it refuses `calls`, and all calls of programs for another machine."""
    def line(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
        return struct.pack("HBBI", code, then, otherwise, value)

    lines = [line(_LOAD, _MACHINE), line(_EQUAL, machine, 0, len(calls) + 3), line(_LOAD, _NUMBER),
             line(_LEAST, _FOREIGN, len(calls) + 1)]
    lines += [line(_EQUAL, call, len(calls) - index) for index, call in enumerate(calls)]
    return b"".join([*lines, line(_RETURN, _ALLOW), line(_RETURN, _REFUSE)])
