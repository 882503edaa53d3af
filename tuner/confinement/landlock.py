"""Landlock: Linux's access rules that a process without privileges sets for itself and its children.

Rules hold for the thread that sets them and all that it starts, so they are set before there is a second thread. The
interface is that of linux/landlock.h; https://docs.kernel.org/userspace-api/landlock.html describes it.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

OLDEST = 2  # version of the interface: version 1 forbids renaming a file into another folder, as PoCL does

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # system calls, the same numbers on every machine
_VERSION = 1  # flag: return the version of the interface
_BENEATH = 1  # kind of rule: a path and everything beneath it
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_OF_FOLDERS = sum(1 << bit for bit in range(3, 14))  # read, remove and make entries, and move them
_SINCE = {3: _TRUNCATE}  # version -> rights that it adds
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_NO_TCP = 0b11  # since version 4: bind, connect
_SCOPED = 0b11  # since version 6: abstract sockets and signals to processes outside


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Rule(ctypes.Structure):
    _pack_ = 1  # as in landlock.h
    _layout_ = "ms"  # Python from 3.14 on wants it beside _pack_
    _fields_ = (("access", ctypes.c_uint64), ("folder", ctypes.c_int32))


def version() -> int:
    """The version of the interface that this system offers; 0 where there is none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(ctypes.CDLL(None).syscall(_CREATE, None, ctypes.c_size_t(0), _VERSION)))


def restrict(readable: Iterable[Path], writable: Iterable[Path]) -> bool:
    """Let this process read and execute only `readable` paths, and write only `writable` ones, which it may read, too.

    Folders can be listed everywhere, because libraries open the root folder to describe the machine. TCP and signals to
    other processes are forbidden where the system can do so. The caller has set "no new privileges".
    Returns whether the rules hold: False on a system without them.
    """
    system, present = ctypes.CDLL(None), version()
    if present < OLDEST:
        return False
    files = _EXECUTE | _WRITE_FILE | _READ_FILE | _OF_FOLDERS
    files |= sum(rights for since, rights in _SINCE.items() if present >= since)
    rules = _Ruleset(files, _NO_TCP if present >= 4 else 0, _SCOPED if present >= 6 else 0)
    size = 8 if present < 4 else 16 if present < 6 else 24  # bytes of the structure that the version knows
    ruleset = system.syscall(_CREATE, ctypes.byref(rules), ctypes.c_size_t(size), 0)
    if ruleset < 0:
        return False
    try:
        for paths, access in (([Path("/")], _READ_DIR), (readable, _READ), (writable, files)):
            for path in paths:
                _allow(system, ruleset, path, access & files)
        return bool(system.syscall(_RESTRICT, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _allow(system: ctypes.CDLL, ruleset: int, path: Path, access: int) -> None:
    """Add a rule; a path that is not there needs none."""
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(opened).st_mode):
            access &= ~_OF_FOLDERS
        system.syscall(_ADD, ruleset, _BENEATH, ctypes.byref(_Rule(access, opened)), 0)
    finally:
        os.close(opened)
