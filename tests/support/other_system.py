"""Other operating systems, as far as Python sees them: `python -m tests.support.other_system SYSTEM:MACHINE ...`.

All modules of seqtune are imported twice: as usual, so that the packages they use are loaded; then as on the other
system, without what this one alone has, in a process that is forked for each. `seqtune devices` is run there, with
recorded rates of the CPU: no kernel runs.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import platform
import signal
import sys
import time
from typing import Any

from docs.generate.import_arrows import FLOORS, GUESTS, sources
from seqtune.errors import MissingPackageError
from tests.contracts.test_house import name_of

PLATFORMS = {"Darwin": "darwin", "Windows": "win32"}
# What Python lacks there: modules, and attributes of modules.
MODULES = {"Darwin": (), "Windows": ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty")}
_NOT_MAC = ("os.sched_getaffinity", "os.sched_setaffinity", "os.O_PATH", "os.memfd_create", "os.pidfd_open")
ATTRIBUTES = {"Darwin": _NOT_MAC, "Windows": (
    *_NOT_MAC, "os.fork", "os.forkpty", "os.getuid", "os.geteuid", "os.getgid", "os.getpgid", "os.setsid", "os.getsid",
    "os.killpg", "os.chown", "os.uname", "os.waitid", "os.pread", "os.sysconf", "os.O_NOFOLLOW", "os.O_DIRECTORY",
    "os.O_CLOEXEC", "signal.SIGKILL", "signal.SIGBUS", "signal.SIGHUP", "signal.SIGALRM", "signal.SIGQUIT",
    "signal.setitimer", "signal.alarm", "signal.pthread_sigmask", "signal.pthread_kill", "time.tzset")}


def modules() -> list[str]:
    """The names of all modules of seqtune."""
    return sorted({name_of(path).removesuffix(".__main__") for floor in (*FLOORS, GUESTS) for path in sources(floor)})


def loadable(names: list[str]) -> list[str]:
    """The modules that can be imported here: others need packages that are not installed."""
    loaded = []
    for name in names:
        try:
            importlib.import_module(name)
            loaded.append(name)
        except MissingPackageError:
            continue
        except ImportError as error:
            if str(error.name).startswith("seqtune"):
                raise
    return loaded


def become(system: str, machine: str) -> None:
    """Let this process look like one on the other system, and forget the modules of seqtune."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "seqtune"]:
        del sys.modules[name]
    sys.platform = PLATFORMS[system]
    platform.system, platform.machine = lambda: system, lambda: machine
    for name in MODULES[system]:
        sys.modules[name] = None  # type: ignore[assignment]
    for name in ATTRIBUTES[system]:
        module, _, attribute = name.partition(".")
        if hasattr(owner := {"os": os, "signal": signal, "time": time}[module], attribute):
            delattr(owner, attribute)
    if system == "Windows":
        whole = ctypes.CDLL

        def library(name: Any, *rest: Any, **options: Any) -> Any:
            if name is None:
                raise TypeError("the name of a library is a path")
            return whole(name, *rest, **options)

        ctypes.CDLL = library  # type: ignore[misc, assignment]


def seen_from(system: str, machine: str, names: list[str]) -> int:
    """Import these modules on the other system, and list its devices; returns the exit status of the command."""
    become(system, machine)
    for name in names:
        importlib.import_module(name)
    print(f"{len(names)} modules are imported on {sys.platform}")
    sys.modules.pop("tests.support.measuring.recorded_rates", None)
    importlib.import_module("tests.support.measuring.recorded_rates").write()
    return int(importlib.import_module("seqtune.__main__").main(["devices"]))


def main(*systems: str) -> int:
    """Look at every system in a process of its own; returns the largest exit status or signal."""
    names, statuses = loadable(modules()), []
    for system in systems:
        sys.stdout.flush()
        child = os.fork()
        if not child:
            leave, status = os._exit, 1
            try:
                name, _, machine = system.partition(":")
                status = seen_from(name, machine, names)
            finally:
                sys.stdout.flush()
                leave(status)
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    return max(map(abs, statuses))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
