"""ShardFiles: the Parquet files of one data set, whose rows are read in batches.

A data set is one file or a folder of files. Each file is a data set of its own, with the devices and problems of its
rows; a problem's rows may be in several files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from seqtune.errors import FormatError
from seqtune.kernels.devices.device import Device

from ..dataset import MOST_ROWS, SCHEMA, present_columns
from ..dataset_facts import DatasetFacts, dataset_errors, read_facts
from ..machines import separated
from ..parquet_file import LARGEST_COLUMNS, open_parquet, read_batches
from ..provenance import joined

Texts = NDArray[np.object_]


@dataclass(frozen=True, slots=True)
class ShardLimits:
    """The most that is read of one data set."""

    files: int = 10_000
    records: int = 200_000_000  # in all files; a pass over them takes about 10 minutes
    shard: int = 64 << 30  # bytes of a file, of which one row group at a time is in memory
    group: int = LARGEST_COLUMNS  # bytes of the columns of a row group, or of all held in memory, before decoding
    batch: int = 1 << 18  # rows read at a time: 20 to 50 MB
    held: int = MOST_ROWS  # records that are held in memory
    learned: int = 1_000_000  # records that a training holds whole, else a sample of them: 0.5 GB as a table


LIMITS = ShardLimits()


@dataclass(frozen=True)
class ShardFiles:
    """The files of a data set, with the facts of all of them merged."""

    source: Path  # the file or the folder
    paths: tuple[Path, ...]
    rows: int
    size: int  # bytes of all columns before they are decoded
    facts: DatasetFacts
    renamed: tuple[Mapping[str, str], ...]  # by file: new keys of its devices whose key another machine has
    limits: ShardLimits

    @classmethod
    def of(cls, source: Path, limits: ShardLimits = LIMITS) -> ShardFiles:
        """Read the metadata of a file, or of all `*.parquet` in a folder. Raises FormatError."""
        paths = tuple(sorted(source.glob("*.parquet"))[:limits.files + 1]) if source.is_dir() else (source,)
        if not paths:
            raise FormatError(f"the folder {source} has no data set (*.parquet)")
        if len(paths) > limits.files:
            raise FormatError(f"{source} has more than {limits.files:,} files; write fewer and larger ones")
        rows, size, facts, renamed = 0, 0, DatasetFacts({}, {}, frozenset(), {}, {}), list[Mapping[str, str]]()
        for path in paths:
            with dataset_errors(path):
                file = open_parquet(path, limits.records, limits.shard)
                present_columns(path, file.schema_arrow.names)
                facts, keys = _merged(facts, read_facts(path, file))
                groups = range(file.metadata.num_row_groups)
                size += sum(file.metadata.row_group(group).total_byte_size for group in groups)
            rows += file.metadata.num_rows
            renamed.append(keys)
            if rows > limits.records:
                raise FormatError(f"{source} has more than {limits.records:,} records, the most that is read")
        return cls(source, paths, rows, size, facts, tuple(renamed), limits)

    @property
    def fits_memory(self) -> bool:
        """Whether all rows can be held in memory, as `Dataset` holds them."""
        return self.rows <= self.limits.held and self.size <= self.limits.group

    def batches(self, names: Sequence[str]) -> Iterator[pa.Table]:
        """The rows of some columns with the types of SCHEMA, texts as dictionaries. Raises FormatError."""
        schema = pa.schema([SCHEMA.field(name) for name in names])
        limits = self.limits
        for path, renamed in zip(self.paths, self.renamed, strict=True):
            with dataset_errors(path):
                file = open_parquet(path, limits.records, limits.shard)
                for table in read_batches(path, file, names, limits.batch, limits.group):
                    if not len(table):
                        continue
                    batch = table.select(list(names)).cast(schema)
                    for name in names:
                        if name != "seconds" and name != "error" and batch[name].null_count:
                            raise FormatError(f"{path}: the column {name} has empty rows")
                    yield _with_keys(batch, renamed) if renamed else batch


def texts_of(column: pa.ChunkedArray) -> tuple[Texts, NDArray[np.int32]]:
    """The distinct texts (text,) of a column of a batch, as objects, and the index of each row's text (row,)."""
    chunk = column.chunk(0)
    return (chunk.dictionary.to_numpy(zero_copy_only=False).astype(object),
            chunk.indices.to_numpy(zero_copy_only=False))


def _with_keys(batch: pa.Table, renamed: Mapping[str, str]) -> pa.Table:
    """The batch with the new keys of devices."""
    texts, indices = texts_of(batch["device"])
    keys = pa.array([renamed.get(text, text) for text in texts.tolist()], pa.string())
    column = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), keys)
    return batch.set_column(batch.schema.get_field_index("device"), "device", column)


def _merged(facts: DatasetFacts, other: DatasetFacts) -> tuple[DatasetFacts, dict[str, str]]:
    """The facts of both data sets, and new keys for devices of `other` whose key another machine in `facts` has."""
    others: Mapping[str, Device] = separated(facts.devices, other.devices)
    renamed = {key: device.key for key, device in others.items() if device != other.devices[key]}
    devices = {**{renamed.get(key, key): device for key, device in others.items()}, **facts.devices}
    return DatasetFacts(devices, {**other.problems, **facts.problems}, facts.held_out | other.held_out,
                        joined(facts.provenance, other.provenance), {**other.kernels, **facts.kernels}), renamed
