"""Run a program of the benchmarks: `python -m benchmarks NAME [options]`; without a name, list the programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.common.program import run_program
from benchmarks.programs import PROGRAMS, load
from seqtune.errors import MisuseError


def listing() -> str:
    """The list of the programs: their names, questions and pages."""
    width = max(map(len, PROGRAMS))
    lines = [f"  {name:{width}}  {program.question}" + (f" [{', '.join(program.pages)}]" if program.pages else "")
             for name, program in PROGRAMS.items()]
    return "\n".join([str(__doc__), *lines, "", "In brackets: the pages that the program writes with --out docs."])


def main(arguments: Sequence[str]) -> None:
    """Run the program that the first argument names, with the other arguments."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(listing())
        return
    name, *rest = arguments
    if name not in PROGRAMS:
        raise MisuseError(f"no program is called {name!r:.60} (python -m benchmarks lists them)")
    sys.argv[0] = f"python -m benchmarks {name}"  # what the program's --help calls it
    run_program(name, lambda: load(PROGRAMS[name].main)(rest))


if __name__ == "__main__":
    run_program("benchmarks", lambda: main(sys.argv[1:]))
