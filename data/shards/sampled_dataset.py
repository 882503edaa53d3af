"""Sampled data set: a data set of any length, reduced to what one training learns from, in bounded memory.

Two passes over the files need no disk space. The first pass chooses the trials (see `trial_selection`), the second
reads their rows. Rows that no training uses today are left out before the choice:
rows that their space refused, and rows of another toolchain or kernel version. Of a held-out problem one row is kept,
so that the data set still has the problem.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from seqtune.errors import FormatError, KernelError
from seqtune.kernels import registry
from seqtune.kernels.say import Say, silent

from ..dataset import ADDED, SCHEMA, Dataset
from ..dataset_facts import dataset_errors
from ..record import Status
from .files import ShardFiles, Texts, texts_of
from .trial_selection import Hashes, SelectionLimits, TrialSelection, mixed

NAMES = [name for name in SCHEMA.names if name not in ADDED]  # no training reads the others
COLUMNS = ("device", "problem", "kernel", "kernel_version", "configuration", "status", "seconds", "toolchain")
REPETITIONS = 8  # rows kept of one trial, the first ones; two to four finals are usual
SHOWN = 10.0  # seconds between two lines of progress


@dataclass(frozen=True, slots=True)
class Sampling:
    """The numbers of records that were read and kept."""

    records: int
    files: int
    kept: int  # rows
    cases: int  # problems on a device
    share: float  # share of the problems that are kept
    each: int  # maximum number of configurations of a case
    seconds: float

    @property
    def text(self) -> str:
        """The sampling in one sentence."""
        part = "all problems" if self.share == 1 else f"a sample of 1 in {round(1 / self.share):,} problems"
        return (f"learning from {self.kept:,} of {self.records:,} records: {part} ({self.cases:,} with their devices), "
                f"at most {self.each:,} configurations of each")

    def to_json(self) -> dict[str, Any]:
        """The sampling as a JSON object."""
        return asdict(self)


def read_sampled(files: ShardFiles, seed: int, say: Say = silent,
                 limits: SelectionLimits | None = None) -> tuple[Dataset, Sampling]:
    """Read the sample that a training learns from; it depends on the rows and the seed alone. Raises FormatError."""
    with dataset_errors(files.source):
        return _read(files, seed, say, limits or SelectionLimits())


def _read(files: ShardFiles, seed: int, say: Say, limits: SelectionLimits) -> tuple[Dataset, Sampling]:
    began, selection = time.monotonic(), TrialSelection(limits)
    rows = _Rows(files, seed)
    shown, read = began, 0
    for batch in files.batches(COLUMNS):
        usable, problem, case, trial = rows.hashes(batch)
        seconds = batch["seconds"].to_numpy()
        correct = rows.equal(batch["status"], Status.CORRECT.value)
        with np.errstate(invalid="ignore"):
            seconds = np.where(correct & (seconds > 0), seconds, np.float32(np.inf))
        selection.add(problem[usable], case[usable], trial[usable], seconds[usable])
        read += len(batch)
        if time.monotonic() - shown > SHOWN:
            shown = time.monotonic()
            say(f"reading {files.source}: {read:,} of {files.rows:,} records, {read / (shown - began):,.0f} a second")
    chosen, cases, each = selection.chosen()
    frame = _chosen_rows(files, rows, chosen)
    sampling = Sampling(files.rows, len(files.paths), len(frame), cases, 0.5 ** selection.halvings, each,
                        time.monotonic() - began)
    return Dataset.of_frame(frame, files.facts, files.source), sampling


def _chosen_rows(files: ShardFiles, rows: _Rows, chosen: Hashes) -> pd.DataFrame:
    """The rows of the chosen trials, in the order of the files, and one row of each held-out problem."""
    index = pd.Index(chosen)
    counts, held_out, tables = np.zeros(len(chosen), np.int64), set[str](), list[pa.Table]()
    for batch in files.batches(NAMES):
        usable, _, _, trial = rows.hashes(batch)
        numbers = index.get_indexer(pd.Index(trial))
        keep = usable & (numbers >= 0)
        candidates = np.flatnonzero(keep)
        candidates = candidates[np.argsort(numbers[candidates], kind="stable")]
        ordered = numbers[candidates]
        distinct, begins, repeats = np.unique(ordered, return_index=True, return_counts=True)
        earlier = counts[ordered] + np.arange(len(ordered)) - np.repeat(begins, repeats)
        counts[distinct] += repeats
        keep[candidates[earlier >= REPETITIONS]] = False
        texts, indices = texts_of(batch["problem"])
        present, first = np.unique(indices, return_index=True)
        for key, row in zip(texts[present].tolist(), first.tolist(), strict=True):
            if key in files.facts.held_out and key not in held_out:
                held_out.add(key)
                keep[row] = True
        tables.append(_with_own_texts(batch.filter(pa.array(keep))))
    table = pa.concat_tables(tables or [SCHEMA.empty_table().select(NAMES)]).unify_dictionaries()
    frame: pd.DataFrame = table.to_pandas()
    return frame


def _with_own_texts(table: pa.Table) -> pa.Table:
    """The table with dictionaries of its own texts alone, instead of those of the whole row group."""
    for index, name in enumerate(table.column_names):
        if pa.types.is_dictionary(table[name].type):
            texts = pc.dictionary_encode(table[name].cast(pa.string()))
            table = table.set_column(index, name, texts)
    return table


class _Rows:
    """Hashes of rows, and which of them a training uses."""

    def __init__(self, files: ShardFiles, seed: int) -> None:
        self._files, self._source = files, files.source
        self._seed = np.array([seed % 2**64], np.uint64)
        self._versions: dict[str, int] = {name: kernel.version for name, kernel in files.facts.kernels.items()}

    def hashes(self, batch: pa.Table) -> tuple[NDArray[np.bool_], Hashes, Hashes, Hashes]:
        """Which rows of a batch count, and the hashes of their problems, cases and trials. Raises FormatError."""
        columns = {name: texts_of(batch[name]) for name in ("device", "problem", "kernel", "configuration")}
        hashed = {name: pd.util.hash_array(texts, categorize=False)[indices] if len(texts) else np.zeros(
            len(indices), np.uint64) for name, (texts, indices) in columns.items()}
        problem = mixed(self._seed, hashed["problem"])
        case = mixed(problem, hashed["device"])
        held_out = np.array([text in self._files.facts.held_out for text in columns["problem"][0]], bool)
        usable = ~held_out[columns["problem"][1]]
        usable &= ~self.equal(batch["status"], Status.CONSTRAINTS.value)
        usable &= self._has_todays_version(batch, *columns["kernel"]) & self._has_toolchain(batch, *columns["device"])
        return usable, problem, case, mixed(case, hashed["kernel"], hashed["configuration"])

    @staticmethod
    def equal(column: pa.ChunkedArray, text: str) -> NDArray[np.bool_]:
        """Which rows of a column have this text, (row,)."""
        texts, indices = texts_of(column)
        return np.asarray((texts == text)[indices], bool) if len(texts) else np.zeros(len(indices), bool)

    def _has_todays_version(self, batch: pa.Table, names: Texts, indices: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which rows are of today's version of their kernel."""
        if not len(names):
            return np.zeros(0, bool)
        versions = np.array([self._version(name) for name in names.tolist()], np.int64)
        column = batch["kernel_version"].to_numpy()
        pairs, which = np.unique(np.stack([indices, column]), axis=1, return_inverse=True)
        today = np.array([self._files.facts.versions.todays(str(names[index]), int(version)) == versions[index]
                          for index, version in pairs.T], bool)
        return np.asarray(today[which.reshape(-1)])

    def _version(self, name: str) -> int:
        """Today's version of a kernel family, -1 if there is no such family."""
        if name not in self._versions:
            try:
                self._versions[name] = registry.kernel(name).version
            except KernelError:
                return -1
        return self._versions[name]

    def _has_toolchain(self, batch: pa.Table, keys: Texts, indices: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which rows have the toolchain of their device, if its facts name one. Raises FormatError."""
        devices = self._files.facts.devices
        strange = [key for key in keys[np.unique(indices)].tolist() if key not in devices]
        if strange:
            raise FormatError(f"{self._source}: unknown device {strange[0]!r:.80}")
        texts, toolchains = texts_of(batch["toolchain"])
        matches = np.array([[not (key in devices and devices[key].toolchain) or devices[key].toolchain == text
                           for text in texts.tolist()] for key in keys.tolist()], bool)
        return np.asarray(matches.reshape(len(keys), len(texts))[indices, toolchains])
