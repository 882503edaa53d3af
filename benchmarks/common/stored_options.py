"""Stored options: a program that goes on with the work of an earlier call checks that its options are the same.

They are in a JSON file beside the work.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from seqtune.errors import FormatError, MisuseError
from seqtune.kernels.files import read_bounded, write_whole

LARGEST_FILE = 100_000  # bytes of stored options


def check_options(path: Path, options: Mapping[str, object], work: Path) -> None:
    """Compare the options with those in the file, which is written if it is missing.

    `work` is the folder that depends on them.
    Work without a file is of an earlier version: it counts as done with these options, and a line on stderr says so.
    Raises MisuseError if the options differ, FormatError if the file is damaged.
    """
    if not path.exists():
        if work.is_dir() and any(work.iterdir()):
            print(f"{work} does not say its options; it is used", file=sys.stderr, flush=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(options, indent=1) + "\n")
        return
    try:
        stored = json.loads(read_bounded(path, LARGEST_FILE))
    except ValueError:
        stored = None
    if not isinstance(stored, dict):
        raise FormatError(f"{path} is not what this program writes; remove it and {work}")
    for name, value in options.items():
        if stored.get(name) != value:
            raise MisuseError(f"{work} was made with {name} {stored.get(name)!s:.40}, not {value!s:.40}; "
                              "name another --work folder")
