"""DatasetFacts: what a data set's file says about its rows, and the errors of files that are no data set."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from seqtune.errors import FormatError, SeqtuneError, one_line
from seqtune.kernels.declaration import from_json
from seqtune.kernels.devices.device import Device
from seqtune.kernels.files import reason, too_long
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.libraries.versions import KernelVersions
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.leakage import abridged

from .json_content import parse_json

VERSION = 1


@dataclass(frozen=True)
class DatasetFacts:
    """The JSON object under `seqtune` in a file's metadata."""

    devices: Mapping[str, Device]  # by Device.key
    problems: Mapping[str, Problem]  # by Problem.key, where the key does not contain the features
    held_out: frozenset[str]  # Problem.key
    provenance: Mapping[str, str]
    kernels: Mapping[str, Kernel]  # by name: declared in this data set
    versions: KernelVersions = field(default_factory=KernelVersions)  # of kernels that a library's file declares


def read_facts(path: Path, file: pq.ParquetFile) -> DatasetFacts:
    """Read the facts of an open file. Raises FormatError, and Python's errors within `dataset_errors`."""
    metadata = (file.schema_arrow.metadata or {}).get(b"seqtune")
    if metadata is None:
        raise FormatError(f"{path} is a Parquet file, but not a data set of seqtune "
                          f"(columns {', '.join(file.schema_arrow.names)[:80]})")
    facts = parse_json(metadata, path)
    if not isinstance(facts, dict) or facts.get("version") != VERSION:
        version = facts.get("version") if isinstance(facts, dict) else None
        raise FormatError(f"{path} is a data set of version {version}; this seqtune reads version {VERSION}")
    return DatasetFacts(
        {str(key): Device.from_json(device) for key, device in facts["devices"].items()},
        {str(key): Problem.from_json(problem) for key, problem in facts["problems"].items()},
        frozenset(map(str, facts["held_out"])), dict(facts["provenance"]),
        {kernel.name: kernel for kernel in map(from_json, facts.get("kernels", []))},
        KernelVersions.from_json(facts.get("versions", [])))


@contextmanager
def dataset_errors(path: Path) -> Iterator[None]:
    """Raise FormatError, which names the file, for any error of a file that is not a data set.

    A name that is too long raises MisuseError.
    """
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise too_long(path.name) from None
        raise FormatError(f"cannot read the data set {path}: {reason(error)}") from None
    except (pa.ArrowException, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{path} is not a data set of seqtune: {one_line(error, 200)}") from None
    except SeqtuneError as error:
        raise error if str(path) in str(error) else FormatError(f"{path}: {error}") from None


def held_out_elsewhere(parts: Sequence[tuple[set[str], frozenset[str]]]) -> str:
    """The note on problems that one data set learns from and another holds out; empty if there are none.

    Each part has the problems of a data set's rows and those that it holds out, by their keys.
    """
    held_out = frozenset[str]().union(*(own for _, own in parts))
    learned = set[str]().union(*(problems - own for problems, own in parts))
    claimed = sorted(learned & held_out)
    return (f"another of the merged data sets holds out {abridged(claimed)}: no record of "
            f"{'them' if len(claimed) > 1 else 'it'} is learned from" if claimed else "")
