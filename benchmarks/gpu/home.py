"""Home: the folder of a GPU day that is worth bringing home, and the way back from it.

    home/cuda-h200.parquet   all records of the GPU, with provenance; cut into parts of at most 16 MiB
    home/host.parquet        all records of the CPU
    home/results.json        results of all slices and their states

A data set is read back before it counts. The files of a dry run say so in their names, too.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.common.report import today, write_json
from benchmarks.gpu.day import Day, Sizes, read_object
from benchmarks.gpu.shapes import convolutions, products
from benchmarks.gpu.slices import SLICES
from benchmarks.gpu.stand_in import DRY_RUN
from seqtune.data.provenance import check_measured
from seqtune.errors import SeqtuneError

if TYPE_CHECKING:
    import pandas as pd

    from seqtune.data.dataset import Dataset
    from seqtune.data.journal import Journal
    from seqtune.data.record import Record

LARGEST = 16 << 20  # bytes of one file that is brought home
DATA_SLICES = ("gemm-bf16", "gemm-fp16", "conv-fp16", "conv-fp32", "triton", "host", "finals", "peers-gemm",
               "peers-conv")  # in the order of merging: if two have a trial, the first one counts
HOST = ("llvm", "opencl")


@lru_cache(maxsize=4)
def held_out_keys(sizes: Sizes) -> frozenset[str]:
    """The keys of all held-out problems of a day."""
    return frozenset().union(*(products(dtype, sizes.shapes).held_out for dtype in ("bf16", "fp16")),
                             *(convolutions(dtype, sizes.batches, sizes.layers).held_out for dtype in ("fp16", "fp32")))


def measured_data(day: Day) -> Dataset | None:
    """The records of all slices as one data set with provenance, None if there are none."""
    from seqtune.data.dataset import Dataset

    provenance = {"made_by": "python -m benchmarks gpu_day", "machine": day.device.model, "date": today(),
                  "operating_system": platform.system(), **({"dry_run": DRY_RUN} if day.dry else {})}
    merged: Dataset | None = None
    for name in DATA_SLICES:
        if (day.folder / "journals" / f"{name}.sqlite").exists():
            with day.journal(name) as journal:
                data = Dataset.from_journal(journal, provenance, held_out_keys(day.sizes))
            if len(data):
                merged = data if merged is None else merged.merge(data)
    return merged


def bring_home(day: Day) -> list[str]:
    """Write the folder `home` and return a line for each file. Raises SeqtuneError if a file cannot be read back."""
    from seqtune.data.dataset import Dataset

    lines = []
    mark = "dry-run-" if day.dry else ""
    data = measured_data(day)
    if data is not None:
        groups: dict[str, list[str]] = {}
        for key, device in data.devices.items():
            groups.setdefault("host" if device.backend in HOST and key != day.device.key else _slug(day.device.name),
                              []).append(key)
        for name, keys in groups.items():
            part = of_devices(data, keys)
            for path in write_parts(part, day.path("home", f"{mark}{name}.parquet")):
                written = Dataset.read(path)
                lines.append(f"{path}: {len(written)} measurements of {len(written.problems())} problems, "
                             f"{path.stat().st_size / 2**20:.2f} MiB")
    results = {item.name: result for item in SLICES if (result := day.result(item.name)) is not None}
    path = day.path("home", f"{mark}results.json")
    state = read_object(day.folder / "state.json", LARGEST)
    write_json(path, {**({"dry_run": DRY_RUN} if day.dry else {}), "device": day.device.to_json(), "date": today(),
                      "state": state.get("slices", {}), "results": results})
    lines.append(f"{path}: results of {len(results)} slices")
    return lines


def of_devices(data: Dataset, keys: Iterable[str]) -> Dataset:
    """The same data set with only the rows and the facts of these devices."""
    wanted = set(keys)
    rows = data.rows[data.rows["device"].isin(wanted)]
    return of_problems(replace(data, devices={key: value for key, value in data.devices.items() if key in wanted}),
                       rows["problem"].unique(), rows)


def of_problems(data: Dataset, keys: Iterable[str], rows: pd.DataFrame) -> Dataset:
    """The same data set with only those of the `rows` that are of these problems, and their facts."""
    wanted = set(keys)
    return replace(data, rows=rows[rows["problem"].isin(wanted)].reset_index(drop=True),
                   known_problems={key: value for key, value in data.known_problems.items() if key in wanted},
                   held_out=data.held_out & wanted)


def write_parts(data: Dataset, path: Path, most: int = LARGEST) -> list[Path]:
    """Write a data set as one file of at most `most` bytes, or as several with half of the problems each."""
    data.write(path)
    problems = sorted(data.rows["problem"].unique())
    if path.stat().st_size <= most or len(problems) < 2:
        return [path]
    path.unlink()
    halves = problems[:len(problems) // 2], problems[len(problems) // 2:]
    return [part for index, keys in enumerate(halves, 1)
            for part in write_parts(of_problems(data, keys, data.rows), path.with_name(f"{path.stem}-{index}.parquet"),
                                    most)]


def restore(day: Day) -> list[str]:
    """Fill the journals of a day that has a `home` but no journals, so that nothing is measured twice."""
    from seqtune.data.dataset import Dataset

    if (day.folder / "journals").exists() or not (day.folder / "home").exists():
        return []
    lines = []
    with ExitStack() as stack:
        journals: dict[str, Journal] = {}
        for path in sorted((day.folder / "home").glob("*.parquet")):
            data = Dataset.read(path)
            if not day.dry:
                check_measured(data.provenance, path)
            for entry in data.records():
                name = slice_of(day, entry)
                if name not in journals:
                    journals[name] = stack.enter_context(day.journal(name))
                    for device in data.devices.values():
                        journals[name].add_device(device)
                journals[name].add(entry)
            lines.append(f"{path}: {len(data)} measurements restored")
    path = day.folder / "home" / f"{'dry-run-' if day.dry else ''}results.json"
    results = read_object(path, LARGEST).get("results") if path.exists() else None
    for name, result in results.items() if isinstance(results, dict) else ():
        if name in {item.name for item in SLICES} and isinstance(result, dict):
            write_json(day.path("results", f"{name}.json"), result)
    return lines


def slice_of(day: Day, entry: Record) -> str:
    """The slice whose journal holds such a record."""
    if entry.run == "final":
        return "finals"
    if entry.device.startswith("triton"):
        return "triton"
    if entry.device != day.device.key:
        return "host"
    return f"{'gemm' if entry.problem.type == 'gemm' else 'conv'}-{entry.problem['dtype']}"


def check_shippable(path: Path) -> str:
    """Check that a file may be shipped with seqtune; return what it holds. Raises SeqtuneError."""
    from seqtune.data.dataset import Dataset

    data = Dataset.read(path)
    check_measured(data.provenance, path)
    if path.stat().st_size > LARGEST:
        raise SeqtuneError(f"{path} is larger than {LARGEST >> 20} MiB")
    return f"{len(data)} measurements, {len(data.problems())} problems, {len(data.held_out)} held out"


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
