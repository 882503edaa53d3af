"""Feed every reader with malformed inputs: `python -m benchmarks.fuzz [--json] [--inputs 100000] [--out docs]`.

Each target (`targets.py`) has sound files. Half of the inputs of a structured format have a spoilt structure, such as
another value in a JSON object, a changed cell of a data base or a column of another type; the others have spoilt bytes.
The same seed gives the same inputs. A reader may return or raise an error of one line; `guarded_reader.py` says what
else is looked for. Inputs with a finding are kept in a folder that is named at the end.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from benchmarks.common.page import Page, Results, measured_on, publish
from benchmarks.common.program import parser_of, positive, run_program
from benchmarks.common.report import markdown, processor
from benchmarks.robustness.targets import TARGETS

CHUNK = 2_000  # inputs that one process reads
SILENCE = 60.0  # seconds without a word of a process, which then hangs in compiled code

Row = dict[str, Any]


def main() -> None:
    """Run the command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--inputs", type=positive, default=100_000, help="number of malformed inputs of all targets")
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="only this one; repeatable")
    parser.add_argument("--first", type=int, default=0, help="the number of the first input of each target")
    given = parser.parse_args()
    chosen = given.target or list(TARGETS)
    kept = Path(tempfile.mkdtemp(prefix="seqtune-fuzz-"))
    total = sum(TARGETS[name].weight for name in chosen)
    rows = [_fuzzed(name, given.first, math.ceil(given.inputs * TARGETS[name].weight / total), kept)
            for name in chosen]
    results = {"machine": processor(), "rows": rows, "inputs": sum(row["inputs"] for row in rows),
               "findings": [finding for row in rows for finding in row["findings"]]}
    publish(given.out, page, results)
    print(json.dumps(results) if given.json else page(results).tables)
    if results["findings"]:
        print(f"inputs with a finding are in {kept}", file=sys.stderr)
        sys.exit(1)
    kept.rmdir()


def _fuzzed(name: str, first: int, count: int, kept: Path) -> Row:
    """Read `count` inputs of a target. Returns its row of the table, with its findings."""
    begin, findings, read, number = time.perf_counter(), list[Row](), 0, first
    while number < first + count:
        end = min(first + count, number + CHUNK)
        last = number - 1
        with tempfile.TemporaryDirectory(dir=kept) as folder:
            Path(folder, "input").mkdir()
            for message in _messages([sys.executable, "-m", "benchmarks.robustness.guarded_reader", name, str(number),
                                      str(end), str(Path(folder, "input"))]):
                if isinstance(message, int):
                    last, read = message, read + 1
                elif isinstance(message, str):
                    findings.append({"target": name, "seed": last, "finding": message})
                else:
                    findings.append(message)
            for path in Path(folder).glob(f"{name}-*"):
                path.rename(kept / path.name)
        number = max(number, last) + 1
        print(f"fuzz: {name}: {read} of {count}, {len(findings)} findings", file=sys.stderr)
    return {"target": name, "inputs": read, "findings": findings, "seconds": time.perf_counter() - begin}


def _messages(command: list[str]) -> Iterator[int | str | Row]:
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


def page(results: Results) -> Page:
    """The page of the results."""
    rows = [[row["target"], f"{row['inputs']:,}", str(len(row["findings"])), f"{row['seconds']:.0f}"]
            for row in results["rows"]]
    found = [f"- {finding['target']} {finding['seed']}: {finding['finding']}" for finding in results["findings"][:50]]
    count = len(results["findings"])
    return Page(
        "fuzz", "Malformed inputs",
        f"{results['inputs']:,} malformed inputs of {len(rows)} readers: {count or 'no'} finding{'s' * (count != 1)}.",
        "python -m benchmarks.fuzz --out docs",
        markdown(["reader", "inputs", "findings", "seconds"], rows) + "\n\n" + "\n".join(found), measured_on(results),
        "A finding is anything but an answer or an error of one line within a second: another exception, a traceback, "
        "an end of the process, a file written elsewhere, a process or code started, 1 GB of memory.",
        ("Inputs are spoilt at random; no coverage guides them.",))


if __name__ == "__main__":
    run_program("fuzz", main)
