"""UnfinishedTraining: the folder that keeps a training from its first epochs until its checkpoint is written.

It holds the states of the training and the command that began it, so that another command does not go on with it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqtune.errors import FormatError, MisuseError, SeqtuneError, json_fault
from seqtune.kernels.files import SCRATCH, read_bounded, reason, write_whole

from .state import STATE, saved_epoch

ENDING = ".training"  # of the folder beside the checkpoint's
COMMAND = "command.json"
CROSS_VALIDATION = "cross_validation.json"  # the finished folds
JUDGE = "judge"  # the folder of the epochs in which the judge alone learns
LARGEST_COMMAND = 100_000  # bytes
LONGEST_NAME = 60  # characters of a checkpoint's name in that of its folder, each of at most 4 bytes


@dataclass(frozen=True, slots=True)
class UnfinishedTraining:
    """A folder of states. `command` are the arguments that the training depends on, by name, as JSON holds them."""

    folder: Path
    command: Mapping[str, Any]
    own: bool  # whether the folder is for this training alone, and goes when the checkpoint is written

    @classmethod
    def of(cls, out: Path, state: Path | None, command: Mapping[str, Any]) -> UnfinishedTraining:
        """The folder `state`, or one beside the checkpoint `out`. Raises MisuseError if it cannot be a folder."""
        folder = out.with_name(_short(out.name) + ENDING) if state is None else state
        try:
            if not folder.parent.is_dir() or (folder.exists() and not folder.is_dir()):
                raise MisuseError(f"{folder} is not a folder and cannot be created")
        except OSError as error:
            raise MisuseError(f"{folder!s:.80} cannot be a folder: {reason(error)}") from None
        return cls(folder, command, state is None)

    def begin(self, end_now: bool) -> None:
        """Make the folder, unless it has the states of this command. Raises MisuseError if they are another's.

        With `end_now` there must be a state to end with.
        """
        path = self.folder / COMMAND
        if end_now and saved_epoch(self.folder) is None:
            raise MisuseError(f"{self.folder} holds no unfinished training to end; leave out --end-now")
        if path.is_file():
            former = _read(path)
            changed = [f"{name}: {former.get(name)} there, {value} here" for name, value in self.command.items()
                       if former.get(name) != value]
            if changed:
                raise MisuseError(f"{self.folder} holds an unfinished training of another command "
                                  f"({'; '.join(changed)}); repeat that command to go on with it, or remove the folder")
            return
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise SeqtuneError(f"cannot make the folder {self.folder}: {reason(error)}") from None
        write_whole(path, json.dumps(self.command))

    def give_up(self) -> None:
        """Remove the folder if it has no state yet, as where the data are refused."""
        if saved_epoch(self.folder) is None and not (self.folder / STATE).exists():
            self.end()

    def stopped(self, end_now: bool) -> str:
        """A line for the user who stopped the training, or its end: what is kept, how to go on, and how to end."""
        epoch = saved_epoch(self.folder)
        if end_now:
            return (f"stopped while what the checkpoint needs beside its {epoch} epochs, such as trees, was computed; "
                    f"they are still in {self.folder}, and the same command computes it again")
        if epoch is None:
            self.give_up()
            return "stopped before the end of the first epoch, so nothing is kept; the same command begins again"
        return (f"stopped after epoch {epoch}, kept in {self.folder}; the same command goes on, and with --end-now it "
                "writes the checkpoint of what was learned so far")

    def end(self) -> None:
        """Remove the folder if it is this training's own, but nothing that others have put there."""
        if not self.own:
            return
        for folder in (self.folder / JUDGE, self.folder):
            for name in (STATE, CROSS_VALIDATION, COMMAND):
                with suppress(OSError):
                    (folder / name).unlink(missing_ok=True)
            with suppress(OSError):  # scratch files of a killed process
                for path in list(folder.glob(f".*{SCRATCH}")):
                    path.unlink(missing_ok=True)
            with suppress(OSError):
                folder.rmdir()


def _read(path: Path) -> dict[str, Any]:
    """The command of a folder. Raises FormatError."""
    try:
        content = json.loads(read_bounded(path, LARGEST_COMMAND))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path} is not JSON: {json_fault(error)}; remove the folder to begin again") from None
    if not isinstance(content, dict):
        raise FormatError(f"{path} does not hold a command; remove the folder to begin again")
    return content


def _short(name: str) -> str:
    """The name, or the begin of a long one and a digest of it: the name of a file has at most 255 bytes."""
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[:LONGEST_NAME - 13]}-{hashlib.sha256(os.fsencode(name)).hexdigest()[:12]}"
