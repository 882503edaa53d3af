"""Finished: the results of a program's steps in a folder, so that the same call goes on where an earlier one ended.

The names of a step tell everything its result depends on; options, machines and versions take part as a checksum
(`checksum`). A step whose names are new is done, whatever else the folder holds.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.progress import say
from benchmarks.common.report import read_json, write_json
from seqtune.errors import MisuseError
from seqtune.tuner.measuring.deadline import Deadline

LONGEST_NAME = 240  # characters of a file's name; file systems allow 255 with the suffix


class Finished:
    """The results of finished steps, JSON values, as files in a folder. After the deadline no step begins."""

    def __init__(self, folder: Path, deadline: Deadline | None = None) -> None:
        """Make the folder, if it is missing. Raises MisuseError."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MisuseError(f"{folder} cannot be a folder: {error.strerror}") from None
        self.folder, self.deadline = folder, deadline or Deadline()
        self.left = 0  # number of steps that were asked for and did not begin

    def get(self, names: Sequence[object], step: Callable[[], Any], is_stored: bool = True) -> Any:
        """The result of a step: a stored one, or that of the step now; None if the time is over.

        Nothing is stored if the step raises an exception. Raises FormatError if a stored file is damaged.
        """
        path = self.path(*names)
        if is_stored and path.is_file():
            return read_json(path)
        if self.deadline.is_over:
            self.left += 1
            return None
        say(" ".join(map(str, names)))
        result = step()
        if is_stored:
            write_json(path, result)
        return result

    def path(self, *names: object, suffix: str = ".json") -> Path:
        """The path of the file with these names. A long name ends with a checksum of the rest."""
        name = " ".join(map(str, names)).replace(":", "-").replace("/", "-").replace(" ", "_")
        if len(name) > LONGEST_NAME:
            name = f"{name[:LONGEST_NAME - 9]}_{zlib.crc32(name.encode()):08x}"
        return self.folder / (name + suffix)


def checksum(value: object) -> str:
    """A checksum of a JSON value, a name of the steps that depend on the value."""
    return f"{zlib.crc32(json.dumps(value, sort_keys=True).encode()):08x}"
