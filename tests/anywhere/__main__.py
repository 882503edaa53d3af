"""Run the suite under the settings of other machines: `make test-anywhere`, or `python -m tests.anywhere`.

Exit status 1 if a test failed under any of them, 2 for wrong arguments.
"""

from __future__ import annotations

import argparse
import sys

from rich.console import Console
from rich.table import Table

from .runs import OUTPUT, add_pytest, impossible, pytest_arguments, run, show
from .settings import RUNS, SETTINGS, WHOLE


def main() -> int:
    """Parse the command line and do what it asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.anywhere", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="print the settings and the runs, and run nothing")
    parser.add_argument("--only", action="append", default=[], choices=sorted(SETTINGS), metavar="NAME",
                        help="run the suite under this setting alone; may be repeated")
    parser.add_argument("--apart", action="store_true", help="give each setting a run of its own")
    add_pytest(parser)
    given = parser.parse_args()
    arguments = pytest_arguments(parser, given.pytest)
    runs = [(name,) for name in given.only or SETTINGS] if given.only or given.apart else RUNS
    if given.list:
        return _list()
    OUTPUT.mkdir(parents=True, exist_ok=True)
    outcomes = [run([SETTINGS[name] for name in names], OUTPUT, arguments,
                    lambda line: print(line, flush=True)) for names in runs]
    show(outcomes)
    return 1 if any(outcome.failures for outcome in outcomes) else 0


def _list() -> int:
    table = Table("setting", "run", "reason", "here")
    for setting in SETTINGS.values():
        names = next(names for names in RUNS if setting.name in names)
        table.add_row(setting.name, "+".join(names) + (" (whole suite)" if names == WHOLE else ""), setting.reason,
                      impossible(setting) or "yes")
    Console(width=160).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
