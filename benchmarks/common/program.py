"""Parts of the programs: their options, the devices and threads of those that measure, and their ends."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from benchmarks.common.page import add_out
from seqtune.errors import MisuseError, SeqtuneError, one_line

if TYPE_CHECKING:
    from seqtune.kernels.devices.device import Device


LONGEST_LINE = 2000  # characters of an error


def positive(text: str) -> int:
    """Parse a command-line argument that must be a whole number above 0."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is no whole number above 0")
    return int(text)


def whole(text: str) -> int:
    """Parse a command-line argument that must be a whole number, 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r:.40} is no whole number")
    return int(text)


def minutes(text: str) -> float:
    """Parse a number of minutes above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is no number above 0")
    return value


def several(names: Sequence[str]) -> Callable[[str], list[str]]:
    """The parser of a list of names with commas."""
    def parse(text: str) -> list[str]:
        given = text.split(",")
        for name in given:
            if name not in names:
                raise argparse.ArgumentTypeError(f"{name!r:.40} is not one of {', '.join(names)}")
        return given

    return parse


class OneLineParser(argparse.ArgumentParser):
    """A parser whose complaint is one line. Its description keeps its lines."""

    def __init__(self, description: str | None) -> None:
        super().__init__(prog=sys.argv[0], description=description,
                         formatter_class=argparse.RawDescriptionHelpFormatter)

    def error(self, message: str) -> NoReturn:
        """Print the complaint and exit with status 2."""
        self.exit(MisuseError.exit_code, f"{self.prog.split()[-1]}: {one_line(message)} (--help lists the options)\n")


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Make a parser with the options that all kernel benchmarks have."""
    parser = OneLineParser(description)
    add_out(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    return parser


def llvm_devices(threads: Sequence[int]) -> list[Device]:
    """The llvm devices with this CPU's widest vectors, one for each number of threads. Raises DeviceError."""
    from seqtune.tuner.backends.discovery import find

    best = find("llvm:0")
    return [find(f"llvm:{best.instruction_set}:{count}") for count in threads]


def warm_threads(count: int) -> None:
    """Set the number of PyTorch's threads, and start them now."""
    import torch

    torch.set_num_threads(count)
    torch.ones(1 << 20).add_(1)


def run_program(name: str, program: Callable[[], None]) -> None:
    """Run a program; a SeqtuneError becomes one line on standard error and its exit code: 1 failed, 2 misused."""
    try:
        try:
            program()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # `python -m benchmarks ... | head`; the interpreter flushes once more when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except SeqtuneError as error:
        print(f"{name}: {one_line(error, LONGEST_LINE)}", file=sys.stderr)
        sys.exit(error.exit_code)
