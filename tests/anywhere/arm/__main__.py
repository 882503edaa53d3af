"""Run seqtune on an emulated ARM machine: `make test-arm`, or `python -m tests.anywhere.arm`. Nothing needs root.

Exit status 1 if a part failed, 2 for wrong arguments; 0 with a reason where this machine cannot have an emulated one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.installation.wheel import build
from tests.support.paths import ROOT

from ..runs import OUTPUT, Outcome, add_pytest, pytest_arguments, show
from .machine import EmulatedMachine, Impossible
from .parts import EMULATED, PARTS, Part


def main() -> int:
    """Parse the command line and do what it asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.anywhere.arm",
                                     description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "arm", help="of the machine, which is kept")
    parser.add_argument("--only", action="append", default=[], choices=sorted(PARTS), metavar="PART",
                        help=f"run this part alone; may be repeated: {', '.join(PARTS)}")
    add_pytest(parser)
    given = parser.parse_args()
    arguments = pytest_arguments(parser, given.pytest)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    machine, names, outcomes = EmulatedMachine(given.folder), given.only or list(PARTS), []
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="seqtune-arm-") as temporary:
        reason = None
        if set(names) & set(EMULATED):
            try:
                machine.build(build(Path(temporary)))
            except Impossible as error:
                reason = str(error)
        for name in names:
            if reason is not None and name in EMULATED:
                outcomes.append(Outcome(f"arm:{name}", note=reason, ran=False))
                continue
            folder = Path(temporary) / name
            folder.mkdir()
            part = Part(machine, OUTPUT, name)
            print(f"{name}: {OUTPUT / f'arm-{name}.txt'}", flush=True)
            PARTS[name](part, folder, arguments)
            outcomes.append(part.outcome())
    show(outcomes)
    if reason is None and set(names) & set(EMULATED):
        emulator = subprocess.run([machine.tools / "usr" / "bin" / "qemu-aarch64-static", "--version"],
                                  capture_output=True, text=True, check=False).stdout.partition("\n")[0]
        print(f"{emulator}; Python {machine.versions()['python3.11']}; {time.monotonic() - began:.0f} s in all")
    return 1 if any(outcome.failures for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
