"""Programs that compare us with PyTorch: their options, the devices and threads they run on, and their report."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.common.page import Page, Results, add_out, publish
from benchmarks.common.report import Row, machine
from seqtune.errors import SeqtuneError

if TYPE_CHECKING:
    from seqtune.data.journal import Journal
    from seqtune.kernels.device import Device


def positive(text: str) -> int:
    """An argument that counts something."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is no whole number above 0")
    return int(text)


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """The options that the kernel benchmarks share."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_out(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    return parser


def add_search(parser: argparse.ArgumentParser) -> None:
    """The options of those that search."""
    parser.add_argument("--trials", type=positive, default=200,
                        help="configurations of a family that the search measures")
    parser.add_argument("--journal", type=Path, help="keeps the search, so that a second time is quick")
    parser.add_argument("--rounds", type=positive, default=20, help="samples of each way")


@contextmanager
def journal_of(path: Path | None) -> Iterator[Journal]:
    """That journal, or one that is forgotten."""
    from seqtune.data.journal import Journal

    with tempfile.TemporaryDirectory() as folder, Journal(path or Path(folder) / "trials.sqlite") as kept:
        yield kept


def llvm_devices(threads: Sequence[int]) -> list[Device]:
    """The widest vectors here on so many threads each. Raises DeviceError."""
    from seqtune.tuner.backends.discovery import find

    best = find("llvm:0")
    return [find(f"llvm:{best.instruction_set}:{count}") for count in threads]


def warm_threads(count: int) -> None:
    """PyTorch on so many threads, made now."""
    import torch

    torch.set_num_threads(count)
    torch.ones(1 << 20).add_(1)


def report(given: argparse.Namespace, rows: Sequence[Row], devices: Sequence[Device], page: Callable[[Results], Page],
           draw: Callable[[Path], None]) -> None:
    """Prints the table or the rows; writes the page, the JSON file and the figure."""
    import torch

    where = machine(devices)
    where["toolchain"] += f", torch {torch.__version__}"
    found = {"machine": where, "rows": list(rows)}
    made = page(found)
    print(json.dumps(found, allow_nan=False) if given.json else f"{made.tables}\n\n{made.measured}")
    publish(given.out, page, found, draw)


def run_program(name: str, program: Callable[[], None]) -> None:
    """Runs it; what cannot be done is one line."""
    try:
        program()
    except SeqtuneError as error:
        sys.exit(f"{name}: {error}")
