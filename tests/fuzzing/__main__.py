"""Feed every reader with malformed inputs: `python -m tests.fuzzing [--inputs 100000] [--target NAME]`.

Each target (`targets.py`) has sound files. Half of the inputs of a structured format have a spoilt structure, such as
another value in a JSON object, a changed cell of a data base or a column of another type; the others have spoilt bytes.
The same seed gives the same inputs. A reader may return or raise an error of one line; `guarded_reader.py` says what
else is looked for. Inputs with a finding are kept in a folder that is named at the end, and the exit status is 1.
The tests read a few inputs of each target; this command reads as many as there is time for.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from .targets import TARGETS

CHUNK = 2_000  # inputs that one process reads
SILENCE = 60.0  # seconds without a word of a process, which then hangs in compiled code

Finding = dict[str, Any]  # target, seed, and what is wrong


@dataclass(frozen=True, slots=True)
class Outcome:
    """The number of inputs that were read, and the findings."""

    read: int
    findings: list[Finding]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; `arguments` default to those of the process."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000, help="number of malformed inputs of all targets")
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="only this one; repeatable")
    parser.add_argument("--first", type=int, default=0, help="the number of the first input of each target")
    given = parser.parse_args(arguments)
    chosen = given.target or list(TARGETS)
    kept = Path(tempfile.mkdtemp(prefix="seqtune-fuzzing-"))
    total = sum(TARGETS[name].weight for name in chosen)
    findings: list[Finding] = []
    for name in chosen:
        outcome = fuzzed([name], given.first, math.ceil(given.inputs * TARGETS[name].weight / total), kept)
        findings += outcome.findings
        print(f"{name}: {outcome.read:,} inputs, {len(outcome.findings)} findings", flush=True)
    for finding in findings:
        print(f"{finding['target']} {finding['seed']}: {finding['finding']}")
    if findings:
        print(f"inputs with a finding are in {kept}", file=sys.stderr)
        return 1
    kept.rmdir()
    return 0


def fuzzed(names: Sequence[str], first: int, count: int, kept: Path) -> Outcome:
    """Read `count` inputs of each target in processes of their own. Inputs with a finding are put into the folder.

    A process imports the libraries once for all targets. An end of it ends them all, with a finding of the first one.
    """
    findings, read, number, name = list[Finding](), 0, first, names[0]
    while number < first + count:
        end = min(first + count, number + CHUNK)
        last = number - 1
        with tempfile.TemporaryDirectory(dir=kept) as folder:
            Path(folder, "input").mkdir()
            for message in _messages([sys.executable, "-m", "tests.fuzzing.guarded_reader", str(number), str(end),
                                      str(Path(folder, "input")), *names]):
                if isinstance(message, int):
                    last, read = message, read + 1
                elif isinstance(message, str):
                    findings.append({"target": name, "seed": last, "finding": message})
                else:
                    findings.append(message)
            for path in Path(folder).glob("*-*"):
                path.rename(kept / path.name)
        number = max(number, last) + 1
    return Outcome(read, findings)


def _messages(command: list[str]) -> Iterator[int | str | Finding]:
    """The words of a process: numbers of inputs, its findings, and as text how it ended if it should not have."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    lines: SimpleQueue[str | None] = SimpleQueue()

    def listen() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    errors: list[str] = []
    listeners = [Thread(target=listen), Thread(target=lambda: errors.append(process.stderr.read()))]  # type: ignore[union-attr]
    for listener in listeners:
        listener.start()
    try:
        while (line := lines.get(timeout=SILENCE)) is not None:
            yield int(line) if line.strip().isdecimal() else json.loads(line)
        listeners[1].join()
        if process.wait():
            last = errors[0].strip().splitlines()[-1:] or [""]
            yield f"the process ended with {process.returncode}: {last[0][:200]}"
    except Empty:
        yield f"no word for {SILENCE:.0f} s"
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
