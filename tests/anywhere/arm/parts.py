"""Parts: what is run on the emulated machine, each with its outcome. A failure is a line; nothing stops the others."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from seqtune.kernels.devices.processors import PROCESSORS
from seqtune.kernels.registry import families
from tests.support.paths import ROOT

from ..runs import Outcome, counted
from .machine import EmulatedMachine

# Folders of tests that need neither PyTorch nor OpenCL, nor Ray.
TESTS = ("tests/contracts", "tests/data", "tests/kernels", "tests/predictor", "tests/integrations/aiter",
         "tests/integrations/gemlite", "tests/integrations/kernel_tuner/test_formats.py", "tests/integrations/miopen",
         "tests/integrations/serving", "tests/tuner/backends/llvm",
         "tests/tuner/confinement", "tests/tuner/cost_models", "tests/tuner/measuring", "tests/tuner/run",
         "tests/tuner/strategies", "tests/front/commands", "tests/front/test_command_line.py",
         "tests/front/test_bad_input.py")
# Instruction set -> the processor that QEMU emulates.
SETS = {"neon": "neoverse-n1", "sve256": "max,sve256=on", "sve512": "max,sve512=on"}
CONFIGURATIONS = 20  # of each family and element type, on each instruction set
PROCESSES = 2  # at a time, in the two parts that take longest
FEWEST_VERIFIED, FEWEST_TESTS = 400, 1500  # fewer mean that something was left out
SAMPLE = 200  # configurations of each family that are compiled for each of CORES
CORES = ("neoverse-n1", "neoverse-v1", "a64fx", "apple-m1")
PROBLEMS = "gemm m=33 n=40 k=24\nconv2d c=8 h=9 w=9 k=16 r=3 s=3 pad=1\n"
TRIALS = 12  # of each problem that is tuned
CALIBRATIONS = (60, 180, 360)  # seconds of `calibrate`, the next if nothing was measured
_REQUIRED = """
from importlib.metadata import requires, version
from packaging.requirements import Requirement
import seqtune
assert "site-packages" in seqtune.__file__, seqtune.__file__
for needed in map(Requirement, requires("seqtune")):
    if needed.marker is None or needed.marker.evaluate({"extra": ""}):
        assert needed.specifier.contains(version(needed.name)), needed
"""


class Part:
    """One part's run on a machine: its commands, its time, and what went wrong."""

    def __init__(self, machine: EmulatedMachine, output: Path, name: str) -> None:
        self.machine, self.name, self.failures, self.passed, self.skipped = machine, name, list[str](), 0, 0
        self.note = ""
        self._log = (output / f"arm-{name}.txt").open("w")
        self._began = time.monotonic()

    def outcome(self) -> Outcome:
        """The result so far."""
        self._log.close()
        return Outcome(f"arm:{self.name}", self.passed, self.skipped, tuple(self.failures),
                       time.monotonic() - self._began, self.note)

    def python(self, *words: str, cpu: str = SETS["neon"], folder: Path = ROOT, sources: bool = True) -> str | None:
        """Run Python on the machine; returns what it prints, or None after noting a failure."""
        return self.run([str(self.machine.python), *words],
                        self.machine.environment(cpu, **({"PYTHONPATH": str(ROOT)} if sources else {})), folder)

    def run(self, words: Sequence[str], environment: dict[str, str] | None = None, folder: Path = ROOT) -> str | None:
        """Run a command; returns what it prints, or None after noting a failure."""
        done = subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True, check=False)
        self._log.write(f"$ {' '.join(words)}\n{done.stdout}{done.stderr}\n")
        self._log.flush()
        if done.returncode == 0:
            return done.stdout
        last = (done.stderr.strip() or done.stdout.strip() or "it printed nothing").splitlines()[-1]
        self.failures.append(f"{' '.join(words[1:4])} ended with exit status {done.returncode}: {last:.200}")
        return None

    def check(self, holds: bool, message: str) -> None:
        """Count a check, or note that it failed."""
        if holds:
            self.passed += 1
        else:
            self.failures.append(message)


def wheel(part: Part, folder: Path, arguments: Sequence[str]) -> None:
    """The wheel is installed there with its declared dependencies, and `seqtune devices` lists the CPU."""
    part.check(part.python("-c", _REQUIRED, folder=folder, sources=False) is not None, "the installed wheel")
    listed = part.python("-m", "seqtune", "devices", "--json", folder=folder, sources=False)
    names = [device["name"] for device in json.loads(listed)["devices"]] if listed else []
    part.check("llvm:neon:1" in names, f"`seqtune devices` lists {names}")


def tests(part: Part, folder: Path, arguments: Sequence[str]) -> None:
    """The core tests; `arguments` are pytest's."""
    results = folder / "results.xml"
    part.python("-m", "pytest", "-p", "no:cacheprovider", "-q", "-rfE", "-m", "not slow", "--dist", "loadfile",
                f"--junitxml={results}", *(arguments or ("--numprocesses", str(PROCESSES))), *TESTS)
    part.passed, part.skipped, failed = counted(results)
    part.failures[:] = [*part.failures, *failed]
    collected = part.passed + part.skipped + len(failed)
    part.note = f"{collected} tests collected"
    if not arguments and collected < FEWEST_TESTS:
        part.failures.append(f"only {part.note}")


def kernels(part: Part, folder: Path, arguments: Sequence[str]) -> None:
    """Configurations of every family are right on every instruction set, and planted mistakes are found."""
    def verified(name: str) -> int:
        printed = part.python("-m", "tests.anywhere.arm.kernels", name, str(CONFIGURATIONS), cpu=SETS[name])
        return 0 if printed is None else int(json.loads(printed.splitlines()[-1])["verified"])

    with ThreadPoolExecutor(PROCESSES) as pool:
        part.passed = sum(pool.map(verified, SETS))
    part.check(part.passed >= FEWEST_VERIFIED, f"only {part.passed} configurations were verified")
    planted = part.python("-m", "tests.anywhere.arm.kernels", "neon", "2", "--plant")
    found = json.loads(planted.splitlines()[-1])["wrong"] if planted else 0
    part.note = f"{found} planted wrong orders of lanes were found"


def tune(part: Part, folder: Path, arguments: Sequence[str]) -> None:
    """`tune` goes on after it was killed, and repeats nothing."""
    (folder / "problems.txt").write_text(PROBLEMS)
    journal = folder / "journal.sqlite"
    words = ["-m", "seqtune", "tune", "--problems", str(folder / "problems.txt"), "--device", "llvm:neon:1", "--trials",
             str(TRIALS), "--journal", str(journal), "--strategy", "random"]
    with subprocess.Popen([str(part.machine.python), *words], cwd=ROOT, start_new_session=True,
                          env=part.machine.environment(PYTHONPATH=str(ROOT)), stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and records(journal) < TRIALS // 2:
            time.sleep(0.5)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    before = records(journal)
    part.check(0 < before < 2 * TRIALS, f"the journal had {before} records when `tune` was killed")
    part.check(part.python(*words) is not None, "`tune` did not go on")
    after = records(journal)
    part.check(after >= 2 * TRIALS, f"the journal has {after} records at the end")
    part.note = f"killed after {before} records, {after} at the end"


def records(journal: Path) -> int:
    """The number of records in a journal that another process may be writing."""
    try:
        with sqlite3.connect(f"file:{journal}?mode=ro", uri=True) as opened:
            return int(opened.execute("SELECT count(*) FROM trials").fetchone()[0])
    except sqlite3.Error:
        return 0


def calibrate(part: Part, folder: Path, arguments: Sequence[str]) -> None:
    """`calibrate` measures in a minute, or in more where other programs have most of this machine.

    Its own problems would take longer than that each.
    """
    (folder / "problems.txt").write_text(PROBLEMS)
    journal = folder / "calibration.sqlite"
    for seconds in CALIBRATIONS:
        part.check(part.python("-m", "seqtune", "calibrate", "--problems", str(folder / "problems.txt"), "--device",
                               "llvm:neon:1", "--seconds", str(seconds), "--journal", str(journal)) is not None,
                   "`calibrate`")
        part.note = f"{records(journal)} records in {seconds} s"
        if records(journal):
            break
    part.check(records(journal) > 0, "nothing was measured")


def c_export(part: Part, folder: Path, arguments: Sequence[str]) -> None:
    """The exported C predictor answers there as it does here."""
    source = folder / "predictor.c"
    here = {**os.environ, "PYTHONPATH": str(ROOT)}
    if part.run([sys.executable, "-m", "seqtune", "export-c", "--library", "llvm", "--out", str(source)], here) is None:
        return
    (folder / "main.c").write_text(Path(__file__).with_name("predict.c").read_text())
    answers: list[str | None] = []
    for compiler, environment in (("cc", here), (str(part.machine.folder / "bin" / "cc"), here)):
        program = str(folder / f"predict{len(answers)}")
        part.run([compiler, "-std=c99", "-O2", "-o", program, str(folder / "main.c"), "-lm"], environment)
        answers.append(part.run([program], environment))
    part.check(answers[0] is not None and answers[0] == answers[1], "the answers differ")
    part.note = f"{len((answers[0] or '').splitlines())} answers compared"


def networks(part: Part, folder: Path, arguments: Sequence[str]) -> None:
    """Programs of networks that are compiled here for such a CPU compute there what PyTorch computes here."""
    if part.run([sys.executable, "-m", "tests.anywhere.arm.networks", str(folder)],
                {**os.environ, "PYTHONPATH": str(ROOT), "XDG_DATA_HOME": str(folder)}) is None:
        return
    printed = part.python("-m", "tests.anywhere.arm.saved_programs", str(folder))
    if printed is not None:
        found = json.loads(printed.splitlines()[-1])
        part.passed = len(found)
        part.note = "largest errors: " + ", ".join(f"{name} {error:.0e}" for name, error in found.items())


def compiled(part: Part, folder: Path, arguments: Sequence[str]) -> None:
    """Every family compiles for every kind of processor; this needs no emulator."""
    for core in CORES:
        printed = part.run([sys.executable, "-m", "seqtune", "kernels", "--compile", f"llvm:{core}", "--sample",
                            str(SAMPLE), "--json"], {**os.environ, "PYTHONPATH": str(ROOT)})
        if printed is not None:
            report = json.loads(printed)
            part.passed += sum(family["compiled"] for family in report["families"])
    part.note = f"{len(families('llvm'))} families, {', '.join(CORES)}"
    assert set(CORES) <= PROCESSORS.keys()


PARTS: dict[str, Callable[[Part, Path, Sequence[str]], None]] = {
    "wheel": wheel, "kernels": kernels, "tune": tune, "calibrate": calibrate, "c-export": c_export,
    "networks": networks, "compiled": compiled, "tests": tests}
EMULATED = tuple(name for name in PARTS if name != "compiled")
