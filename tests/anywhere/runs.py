"""One run of the suite under some settings: its folders, its environment, its command line and its result."""

from __future__ import annotations

import argparse
import importlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from rich.console import Console
from rich.table import Table

from benchmarks.speed.busy_processes import BusyProcesses
from seqtune.tuner.backends.opencl.pocl import host_flags
from tests.support.paths import ROOT

from . import namespaces
from .settings import NOT_SLOW, WHOLE, Setting

# Variables whose names begin so would change what a setting means, so a run does not inherit them.
_USERS = ("OPENBLAS_", "ATEN_", "NPY_", "XDG_", "SEQTUNE_TEST_")
_ABSENT = ROOT / "tests" / "anywhere" / "absent"
_CORE = """
import ctypes, glob, os, numpy
for path in glob.glob(os.path.dirname(numpy.__file__) + ".libs/*openblas*"):
    for name in ("scipy_openblas_get_corename64_", "openblas_get_corename64_", "openblas_get_corename"):
        function = getattr(ctypes.CDLL(path), name, None)
        if function is not None:
            function.restype = ctypes.c_char_p
            print(function().decode())
            raise SystemExit
"""


OUTPUT = ROOT / "build" / "anywhere"  # folder of what the runs print


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run. `note` says why there was none, or what the settings really meant here."""

    name: str
    passed: int = 0
    skipped: int = 0
    failures: tuple[str, ...] = ()
    seconds: float = 0.0
    note: str = ""
    ran: bool = True


def core_of(name: str) -> str:
    """OpenBLAS's name of the kernels that NumPy uses when it is asked for this one; empty if it does not say."""
    done = subprocess.run([sys.executable, "-c", _CORE], capture_output=True, text=True, check=False,
                          env={**os.environ, "OPENBLAS_CORETYPE": name})
    return done.stdout.strip()


def numpy_features() -> str:
    """The features of this CPU that NumPy may do without, as NPY_DISABLE_CPU_FEATURES takes them."""
    core = importlib.import_module("numpy._core._multiarray_umath")  # its only list of them
    return " ".join(name for name in core.__cpu_dispatch__ if core.__cpu_features__[name])


def impossible(setting: Setting) -> str | None:
    """The reason in one line why this machine cannot have a setting, or None."""
    if not setting.flags <= host_flags():
        return f"this CPU has no {', '.join(sorted(setting.flags - host_flags()))}"
    if setting.other_user and os.geteuid() != 0:
        return "this user is not root already, so all other runs are"
    return namespaces.unavailable() if setting.namespace or setting.other_user else None


def another_name(setting: Setting) -> str | None:
    """The kernels that OpenBLAS uses instead, if it was built without those of the setting."""
    asked = setting.environment.get("OPENBLAS_CORETYPE")
    used = core_of(asked) if asked else ""
    if not asked or used.lower() == asked.lower() or (asked, used) == ("Prescott", "Katmai"):  # its name of the oldest
        return None
    return used or "unknown ones"


def run(settings: Sequence[Setting], output: Path, arguments: Sequence[str],
        say: Callable[[str], None] = lambda line: None) -> Outcome:
    """Run the suite under the settings; what pytest prints goes to a file in `output`. `arguments` are pytest's."""
    notes, kept = [], []
    for setting in settings:
        if (reason := impossible(setting)) is not None:
            notes.append(f"without {setting.name}: {reason}")
        elif (used := another_name(setting)) is not None:
            notes.append(f"without {setting.name}: OpenBLAS uses its kernels for {used}")
        else:
            kept.append(setting)
    name = "+".join(setting.name for setting in settings)
    if not kept:
        return Outcome(name, note="; ".join(notes), ran=False)
    say(f"{name}: {output / name}.txt" + "".join(f"\n  {note}" for note in notes))
    whole = [setting.name for setting in kept] == list(WHOLE)
    with _folder(kept) as folder, BusyProcesses(sum(setting.busy for setting in kept)):
        results, home, log = folder / "results.xml", folder / "home", output / f"{name}.txt"
        python = next((_environment(folder / setting.copied) for setting in kept if setting.copied), sys.executable)
        command = [str(python), "-m", "pytest", "--numprocesses", "auto", "--maxprocesses", "4", "--dist",
                   "loadfile", "--no-loadscope-reorder", "-rfE", "-p", "no:cacheprovider", f"--junitxml={results}",
                   *([] if whole else NOT_SLOW), *(word for setting in kept for word in setting.arguments), *arguments]
        started = time.monotonic()
        with log.open("w") as printed:
            code = _finished(kept, command, folder, printed)
        seconds = time.monotonic() - started
        passed, skipped, failures = counted(results)
        if code not in (0, 1):
            failures.append(f"pytest ended with exit status {code}: see {log}")
        failures += [f"the tests wrote {path} into the user's home" for path in sorted(home.rglob("*"))]
    return Outcome(name, passed, skipped, tuple(failures), seconds, "; ".join(notes))


def _finished(settings: Sequence[Setting], command: list[str], folder: Path, printed: object) -> int:
    """The exit status of the command under the settings."""
    other_user = any(setting.other_user for setting in settings)
    mounts = [getattr(namespaces, setting.namespace)() for setting in settings if setting.namespace]
    if other_user:
        mounts.append(namespaces.readable_python())
    if mounts:
        command = namespaces.wrapped("\n".join(mounts), command, other_user)
    cores = sorted(os.sched_getaffinity(0))[:min((setting.cores for setting in settings if setting.cores),
                                                 default=None)]
    sources = next((folder / setting.copied for setting in settings if setting.copied), ROOT)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_USERS)}
    environment |= {"HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp"),
                    "PYTHONPATH": os.pathsep.join((str(_ABSENT), str(sources)))}
    for setting in settings:
        environment |= setting.environment
    if environment.get("NPY_DISABLE_CPU_FEATURES") == "*":
        environment["NPY_DISABLE_CPU_FEATURES"] = numpy_features()
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    process = subprocess.Popen(command, cwd=sources, env=environment, stdout=printed, stderr=subprocess.STDOUT,  # type: ignore[call-overload]
                               preexec_fn=lambda: os.sched_setaffinity(0, cores), start_new_session=True)
    try:
        return int(process.wait())
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise


@contextmanager
def _folder(settings: Sequence[Setting]) -> Iterator[Path]:
    """A folder with an empty home, an empty temporary folder and, where a setting wants it, a copy of the sources."""
    copied = next((setting.copied for setting in settings if setting.copied), None)
    prefix = "seqtune anywhere " if copied and " " in copied else "seqtune-anywhere-"
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        for name in ("home", "tmp"):
            (folder / name).mkdir()
        if copied:
            copy_sources(folder / copied)
        if any(setting.other_user for setting in settings):
            for path in (folder, *folder.rglob("*")):
                os.chown(path, namespaces.NOBODY, namespaces.NOBODY, follow_symlinks=False)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def copy_sources(target: Path) -> None:
    """Copy what git tracks and what it does not ignore; links stay links."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).is_symlink() or (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name, follow_symlinks=False)


def _environment(sources: Path) -> Path:
    """The Python of a virtual environment in these sources, where `make` has it; its packages are those of this one."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", sources / ".venv"], check=True)
    packages = next((sources / ".venv" / "lib").glob("python*/site-packages"))
    packages.rmdir()
    packages.symlink_to(sysconfig.get_path("purelib"))  # a .pth file would not lead NVRTC's loader to its libraries
    return sources / ".venv" / "bin" / "python"


def counted(results: Path) -> tuple[int, int, list[str]]:
    """The numbers of tests that passed and were skipped, and the names of those that failed."""
    if not results.is_file():
        return 0, 0, []
    cases = list(ElementTree.parse(results).iter("testcase"))
    failures = [f"{case.get('classname')}::{case.get('name')}" for case in cases
                if case.find("failure") is not None or case.find("error") is not None]
    skipped = sum(case.find("skipped") is not None for case in cases)
    return len(cases) - len(failures) - skipped, skipped, failures


def add_pytest(parser: argparse.ArgumentParser) -> None:
    """Add the option with the arguments of pytest."""
    parser.add_argument("--pytest", default="", metavar="ARGUMENTS", help="further arguments of pytest, in one word")


def pytest_arguments(parser: argparse.ArgumentParser, text: str) -> list[str]:
    """The arguments in the word of `--pytest`. Ends the program with one line if a quotation is not closed."""
    try:
        return shlex.split(text)
    except ValueError as error:
        parser.error(f"--pytest {text!r:.60}: {error}")


def show(outcomes: Sequence[Outcome]) -> None:
    """Print a line for each failure, and the table of the runs."""
    table = Table("settings", "passed", "failed", "skipped", "seconds", "note")
    for outcome in outcomes:
        counts = (outcome.passed, len(outcome.failures), outcome.skipped, round(outcome.seconds))
        table.add_row(outcome.name, *(map(str, counts) if outcome.ran else ("-",) * len(counts)), outcome.note)
    for outcome in outcomes:
        for failure in outcome.failures:
            print(f"{outcome.name}: {failure}")
    Console(width=160).print(table)
