"""The verb `doctor`: says whether this machine measures well, and what to do about what it finds."""

from __future__ import annotations

import os
import shutil
import sqlite3
import warnings
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqtune.data.journal.journal import default_path
from seqtune.data.journal.schema import check_header, check_regular, check_tables
from seqtune.kernels.files import check_writable
from seqtune.kernels.own_folders import NO_HOME, cache_folder, is_nowhere
from seqtune.kernels.say import Say, silent
from seqtune.tuner.load import Load, LoadMeter
from seqtune.tuner.machine_state import MachineState
from seqtune.tuner.processes import usable_jobs

from ..errors import SeqtuneError, SeqtuneWarning, one_line
from .results import NEW_CPU, Devices

GOOD, NOTE, BAD = "good", "note", "bad"
FREE = 2_000_000_000  # bytes that journal and caches may need; the caches of compiled code keep at most 1 GiB each


@dataclass(frozen=True, slots=True)
class Check:
    """One line of an examination."""

    name: str
    state: str  # good; note: it may be so, and is worth knowing; bad: times or answers suffer
    found: str
    advice: str = ""  # what to do; empty where nothing is to be done

    def to_json(self) -> dict[str, str]:
        """A JSON object."""
        return {"name": self.name, "state": self.state, "found": self.found, "advice": self.advice}


@dataclass(frozen=True, slots=True)
class Examination:
    """The checks of a machine."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing is bad."""
        return all(check.state != BAD for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return {"passed": self.passed, "checks": [check.to_json() for check in self.checks]}


def doctor(journal: str | Path | None = None, progress: Say = silent) -> Examination:
    """Examine this machine: whether times that are measured here can be trusted, and whether everything is in place.

    `journal` is the journal that would be used (None: the user's own). Nothing is changed, but rates of devices may be
    measured for the cache. What is wrong is a check with the state "bad", never an exception.
    """
    from .listing import devices

    progress("measuring the load of this machine")
    meter = LoadMeter()
    load = meter.well_known_load()
    progress("looking for devices")
    listing = devices()
    state = MachineState.now()
    return Examination((
        cores(state), quota(state), clock(state), busy(load), compiled_code(), llvm(listing), opencl(listing),
        journal_file(default_path() if journal is None else Path(journal)), caches(), processes()))


def cores(state: MachineState) -> Check:
    """Whether threads have cores of their own."""
    found = f"{state.processors} usable CPUs on {state.cores} cores" + (
        ", in a virtual machine" if state.virtual else "")
    if state.cores < state.processors:
        return Check("cores", NOTE, found, "kernels get one thread a core; keep other programs off the hyperthreads "
                                           "beside them while you measure")
    return Check("cores", GOOD, found)


def quota(state: MachineState) -> Check:
    """Whether a container limits the time of the CPUs."""
    if state.quota is None or state.quota >= state.processors:
        return Check("quota", GOOD, "no limit of CPU time below the number of CPUs")
    return Check("quota", BAD, f"a control group gives {state.quota:g} CPUs' time to {state.processors} CPUs",
                 "threads are stopped in the middle of a measurement: raise the limit, or start seqtune on fewer CPUs "
                 f"(taskset -c 0-{max(0, int(state.quota) - 1)})")


def clock(state: MachineState) -> Check:
    """Whether the clock may reach its frequency."""
    governors = ", ".join(governor.partition(":")[2] for governor in state.governors)
    if state.slowed:
        return Check("clock", BAD, f"governor {governors} holds the lowest frequency",
                     "sudo cpupower frequency-set --governor performance")
    if state.on_battery:
        return Check("clock", BAD, "on battery", "plug the machine in: systems lower the clock on battery")
    return Check("clock", GOOD, f"governor {governors}" if governors else "this system does not show its governor")


def busy(load: Load) -> Check:
    """Whether other work has the CPUs."""
    if load.heavy:
        return Check("load", BAD, str(load), "wait until they are done: measurements wait, too, but for a fifth of "
                                             "their time at most")
    return Check("load", GOOD, str(load))


def compiled_code() -> Check:
    """Whether functions can be compiled and called in this process."""
    import ctypes

    from seqtune.tuner.backends.llvm.compiler import Compiler, capabilities, instruction_sets, toolchain

    try:
        names = instruction_sets()
        with closing(Compiler(names[0] if names else "neon")) as compiler:  # as `tuner.backends.llvm.compiled` does
            module, _ = compiler.build("define i32 @answer() {\n  ret i32 42\n}\n", kept=False)
            if ctypes.CFUNCTYPE(ctypes.c_int)(module.address("answer"))() != 42:
                raise SeqtuneError("a compiled function returned a wrong number")
    except Exception as error:  # LLVM and the linker raise exceptions of their own
        return Check("compiler", BAD, one_line(f"no code can be compiled: {error}"),
                     "reinstall llvmlite; no prediction works without it")
    if not names:
        return Check("compiler", NOTE, f"{toolchain()} compiles, and finds no vector instructions on this CPU",
                     "kernels need them; predictions for other devices do without")
    able = {name: ", ".join(fact for fact, _ in capabilities(name)) for name in names}
    return Check("compiler", GOOD, f"{toolchain()} compiles for " + ", ".join(
        f"{name} ({facts})" if facts else name for name, facts in able.items()))


def llvm(listing: Devices) -> Check:
    """Whether this CPU is a device, its rates hold, and the shipped data know it."""
    names = [device.name for _, device in listing.listed if device.backend == "llvm"]
    if not names:
        return Check("this CPU", BAD, listing.unavailable.get("llvm", "no device"), "seqtune devices says more")
    if listing.doubt:
        return Check("this CPU", NOTE, listing.doubt, "ask again when the machine is quiet")
    return Check("this CPU", NOTE if listing.new_cpu else GOOD, f"{names[0]} and {len(names) - 1} more",
                 NEW_CPU if listing.new_cpu else "")


def opencl(listing: Devices) -> Check:
    """Whether there is a device of OpenCL, such as PoCL's."""
    found = [(device.name, device.toolchain) for _, device in listing.listed if device.backend == "opencl"]
    if not found:
        return Check("OpenCL", NOTE, listing.unavailable.get("opencl", "no device"),
                     "only kernels in OpenCL C need one; llvm devices do without")
    return Check("OpenCL", GOOD, ", ".join(f"{name} ({toolchain})" for name, toolchain in found))


def journal_file(path: Path) -> Check:
    """Whether the journal can be read and written. Does not create it, and migrates nothing."""
    free = _free(path)
    try:
        check_regular(path)
        if not path.exists():
            reason = _cannot_write(path.parent) if path == default_path() or path.parent.is_dir() else (
                f"the folder of {path} does not exist")
            return Check("journal", BAD if reason else GOOD, reason or f"{path} does not exist yet", _ANOTHER
                         if reason else "")
        if path.stat().st_size:
            check_header(path)
            check_tables(path)
    except SeqtuneError as error:
        return Check("journal", BAD, str(error), "" if is_nowhere(path) else _ANOTHER)
    except (OSError, sqlite3.Error) as error:
        return Check("journal", BAD, one_line(f"{path} cannot be read: {error}"), _ANOTHER)
    if not os.access(path, os.W_OK):
        return Check("journal", BAD, f"{path} cannot be written", _ANOTHER)
    if free is not None and free < FREE:
        return Check("journal", NOTE, f"{path}: {free / 1e9:.1f} GB are free", "make room: every measurement is kept")
    return Check("journal", GOOD, f"{path}, {path.stat().st_size / 1e6:.1f} MB")


_ANOTHER = "name another with --journal, or see to its permissions"


def caches() -> Check:
    """Whether the folder of caches can be written, and what it holds."""
    folder = cache_folder()
    reason = NO_HOME if is_nowhere(folder) else _cannot_write(folder)
    if reason:
        return Check("caches", BAD, reason, "every process measures rates and compiles anew" + (
            "" if is_nowhere(folder) else "; set XDG_CACHE_HOME to a folder of yours"))
    size = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            size += path.lstat().st_size
    free = _free(folder)
    if free is not None and free < FREE:
        return Check("caches", NOTE, f"{folder}: {size / 1e6:.0f} MB, {free / 1e9:.1f} GB are free",
                     "it may be deleted at any time")
    return Check("caches", GOOD, f"{folder}, {size / 1e6:.0f} MB")


def processes(jobs: Callable[[int], int] = usable_jobs) -> Check:
    """Whether processes can share work."""
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always", SeqtuneWarning)
        shared = jobs(2) > 1
    if shared:
        return Check("processes", GOOD, "processes can share work")
    return Check("processes", NOTE, one_line("; ".join(str(warning.message) for warning in noted)),
                 "give the container a /dev/shm")


def _cannot_write(folder: Path) -> str:
    """The reason why no file can be made in a folder or, if it does not exist, in the nearest one that does."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        check_writable(folder)
    except SeqtuneError as error:
        return str(error)
    return ""


def _free(path: Path) -> int | None:
    """Free bytes of the disk that holds a path, or will; None if the system does not tell."""
    while not path.exists() and path != path.parent:
        path = path.parent
    with suppress(OSError):
        return shutil.disk_usage(path).free
    return None
