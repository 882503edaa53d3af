"""Reduce measurements to what learning needs, as one small file: `python -m benchmarks reduce FILES --out SHIPPED`.

The files are data sets (Parquet) and journals of one machine. Records of a kernel's older version or of a configuration
that its space no longer holds are left out. A time alone that another time alone of the same configuration refutes is
dropped: it is more than 1.3 times the least one (training ignores it, too). So is a single time whose samples disagree
by half, which happens on a virtual machine when one of two threads is not scheduled. Runs that compared configurations
stay. Spread, error and build time are left out, and times are rounded to one part in 4096, a tenth of their noise.
The provenance says what was dropped.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.common.program import OneLineParser
from seqtune.data.dataset import Dataset
from seqtune.data.formats.dataset_file import read_dataset
from seqtune.data.journal import Journal
from seqtune.data.provenance import check_measured
from seqtune.data.record import COMPARED, Status
from seqtune.data.repeated_times import DISTURBED
from seqtune.errors import KernelError, MisuseError, SeqtuneWarning
from seqtune.kernels.registry import kernel

from .collected_problems import problems
from .locked_problems import locked_problems

DISAGREE = 0.5  # interquartile range / median of a single time's samples
TRIAL = ["device", "problem", "kernel", "configuration"]
MANTISSA = 12  # bits of a time that are kept: 2 ** -12 is a tenth of the noise of the best measurements


def reduced(data: Dataset) -> Dataset:
    """The data set without refuted, outdated and unnecessary values; its provenance says what was dropped."""
    rows = data.rows
    correct, alone = rows["status"] == Status.CORRECT.value, ~rows["run"].isin(COMPARED)
    outdated = rows["kernel_version"] != rows["kernel"].map({name: _version(name) for name in rows["kernel"].unique()})
    outdated |= rows["problem"].isin([problem.key for problem in locked_problems()])
    times = rows["seconds"].where(correct & alone)
    groups = rows.assign(seconds=times).groupby(TRIAL, observed=True)["seconds"]
    refuted = times > DISTURBED * groups.transform("min")
    disagreeing = correct & alone & (groups.transform("count") == 1) & (rows["spread"] > DISAGREE)
    useful = rows[~(outdated | refuted | disagreeing)]
    useful = useful.assign(seconds=_rounded(useful["seconds"]), spread=np.float32(0), error=np.float32("nan"),
                           build_seconds=np.float32(0)).reset_index(drop=True)
    dropped = (f"of {len(rows)} rows {int(outdated.sum())} of older kernels or locked problems, {int(refuted.sum())} "
               f"times refuted by another one of the same configuration, {int(disagreeing.sum())} single times whose "
               "samples disagree; spread, error and build time; digits of times beyond one part in 4096")
    used = {key: problem for key, problem in data.known_problems.items() if key in set(useful["problem"])}
    held_out = data.held_out | {problem.key for problem in problems().held_out}
    return replace(data, rows=useful, known_problems=used, held_out=held_out & frozenset(used),
                   provenance={**data.provenance, "dropped": dropped})


def read_measured(path: Path) -> Dataset:
    """Read a data set, or the records of a journal."""
    if path.suffix == ".sqlite":
        if not path.exists():
            raise MisuseError(f"there is no journal {path}")
        with Journal(path) as journal:
            return Dataset.from_journal(journal)
    return read_dataset(path)


def _version(name: str) -> int:
    """Today's version of a kernel family; 0, which no family has, if it no longer exists."""
    try:
        return kernel(name).version
    except KernelError:
        return 0


def _rounded(seconds: pd.Series[float]) -> pd.Series[float]:
    fraction, exponent = np.frexp(seconds.to_numpy(np.float32))
    scale = np.float32(1 << MANTISSA)
    return pd.Series(np.ldexp(np.round(fraction * scale) / scale, exponent), index=seconds.index)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    parser.add_argument("files", type=Path, nargs="+", help="data sets and journals (.sqlite) of one machine")
    parser.add_argument("--out", type=Path, required=True, help="the reduced data set")
    parser.add_argument("--machine", help="name of the machine in the provenance")
    given = parser.parse_args(arguments)
    run(given)


def run(given: argparse.Namespace) -> None:
    """Read the files, and write the reduced data set."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", SeqtuneWarning)
        data = reduce(Dataset.merge, map(read_measured, given.files))
    check_measured(data.provenance, given.files[0])
    small = reduced(data)
    if given.machine:
        small = replace(small, provenance={**small.provenance, "machine": given.machine})
    small.write(given.out)
    print(f"{given.out}: {len(small)} rows, {len(small.problems())} problems, {len(small.devices)} devices, "
          f"{given.out.stat().st_size / 1e3:.0f} kB; dropped: {small.provenance['dropped']}")
