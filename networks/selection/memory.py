"""ChoiceMemory: what earlier processes chose for layers and networks, in a JSON file beside the journal.

An answer stands under a digest of all that it depends on: the machine with its toolchain, PyTorch, the kernels and the
checkpoint, the measurements in the journal, and the options. The file is a cache: where it is damaged or cannot be
written, everything is predicted and measured again.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from seqtune.data.journal.journal import Journal, default_path
from seqtune.errors import CheckpointError, SeqtuneError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.files import read_bounded, write_whole
from seqtune.kernels.libraries.table import libraries_in_use
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel, table
from seqtune.kernels.version import VERSION as SEQTUNE_VERSION
from seqtune.predictor.checkpoint_folder import find
from seqtune.predictor.predictors import SHIPPED

from .choices import Choice, choice_of_json

VERSION = 3  # version of how choices are made; answers of another version are not used
MOST_ANSWERS = 5000  # the oldest are deleted first; an answer has about 500 bytes
MOST_BYTES = 8_000_000
SUFFIX = ".choices.json"  # after the journal's name


class ChoiceMemory:
    """The remembered answers for one device and one set of options."""

    def __init__(self, device: Device, journal: str | Path | None, checkpoint: str | Path | None,
                 options: Mapping[str, object], most_answers: int = MOST_ANSWERS) -> None:
        """Read the file beside the journal. Raises FormatError for a damaged journal.

        `options` are JSON values on which the answers depend.
        """
        path = default_path() if journal is None else Path(journal)
        self._path = path.with_name(path.name + SUFFIX)
        self._device = device
        self._facts = [VERSION, SEQTUNE_VERSION, device.key, device.fingerprint, device.toolchain, platform.node(),
                       torch.__version__, torch.get_num_threads(),
                       [(name, kernel(name).version) for name in table(device.backend)],
                       _checkpoint_files(checkpoint), _measurements(path, device), dict(options)]
        self._may_make_folder, self._most_answers = journal is None, most_answers
        self._answers = _read(self._path)

    def find(self, problem: Problem) -> Choice | None:
        """The choice that was made for a layer, or None."""
        with suppress(SeqtuneError, LookupError, TypeError, ValueError, AttributeError):
            choice = choice_of_json(self._answers[self._key(problem.key)], self._device)
            if choice.problem == problem:
                return choice
        return None

    def find_answer(self, name: str) -> Any:
        """The JSON value that `keep_answer` remembered under the name, or None."""
        return self._answers.get(self._key(name))

    def keep(self, choices: Sequence[Choice]) -> None:
        """Remember choices. Where the file cannot be written, nothing is remembered."""
        self._keep({choice.problem.key: choice.to_json() for choice in choices})

    def keep_answer(self, name: str, answer: object) -> None:
        """Remember a JSON value under a name that is no problem's."""
        self._keep({name: answer})

    def _keep(self, answers: Mapping[str, object]) -> None:
        merged = {**_read(self._path), **{self._key(name): answer for name, answer in answers.items()}}
        kept = dict(list(merged.items())[-self._most_answers:])
        with suppress(SeqtuneError, OSError):
            if self._may_make_folder:
                self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, json.dumps({"seqtune": VERSION, "answers": kept}))
        self._answers = kept

    def _key(self, name: str) -> str:
        return hashlib.sha256(json.dumps([*self._facts, name]).encode()).hexdigest()


def _read(path: Path) -> dict[str, Any]:
    with suppress(SeqtuneError, ValueError, LookupError, TypeError, RecursionError):
        content = json.loads(read_bounded(path, MOST_BYTES, only_regular=True))
        if content["seqtune"] == VERSION:
            return dict(content["answers"])
    return {}


def _measurements(journal: Path, device: Device) -> list[int]:
    """Numbers that change with the measurements of the device by which proposals are corrected."""
    if not journal.is_file() or not journal.stat().st_size:
        return [0, 0, 0, 0]  # the state of a journal without records
    with Journal(journal) as records:
        return list(records.state(device.key))


def _checkpoint_files(checkpoint: str | Path | None) -> list[object]:
    """The names, sizes and times of the files of the checkpoints that may answer."""
    names = [checkpoint] if checkpoint is not None else [
        *SHIPPED, *(library.checkpoint for library in libraries_in_use() if library.checkpoint is not None)]
    facts: list[object] = []
    for name in names:
        facts.append(str(name))
        with suppress(CheckpointError, OSError):  # a predictor without files; a link to nothing
            files = [(path.name, path.stat()) for path in sorted(find(name).iterdir())]
            facts += [(file, status.st_size, status.st_mtime_ns) for file, status in files]
    return facts
