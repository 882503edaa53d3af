"""Small recordings in the formats of other tools, for tests: a kernel of 3 parameters on the devices `fast` and `odd`.

Its times have their optimum at block=64, tile=2, order=1; `odd` lacks a measured half and fails for block=16.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

VALUES: dict[str, list[int]] = {"block": [16, 32, 64, 128], "tile": [1, 2, 4], "order": [0, 1], "fixed": [7]}
RESTRICTIONS = ["block * tile <= 256", "not (block == 16 and tile == 4) or order == 0"]
SPACE: dict[str, Any] = {
    "kernel": "toy", "tune_params": VALUES, "restrictions": RESTRICTIONS, "problem_size": [640, 480],
    "devices": {"fast": {"device_name": "The Fast One", "vendor": "ACME"}, "odd": {"device_name": "", "vendor": ""}}}
CONFIGURATIONS = [
    (block, tile, order, 7) for block in VALUES["block"] for tile in VALUES["tile"] for order in VALUES["order"]
    if block * tile <= 256 and (not (block == 16 and tile == 4) or order == 0)]


def milliseconds(block: int, tile: int, order: int, device: str = "fast") -> float:
    """The time of a configuration."""
    shift = 0.0 if device == "fast" else 0.25
    return 1.0 + abs(block - 64) / 32 + abs(tile - 2) * (0.5 + shift) + (1 - order) * 0.125


def rows(device: str) -> list[dict[str, Any]]:
    """Rows of the Parquet file."""
    found = []
    for block, tile, order, fixed in CONFIGURATIONS:
        fails = device == "odd" and block == 16
        found.append({
            "kernel": "toy", "device": device, "block": block, "tile": tile, "order": order, "fixed": fixed,
            "status": "RuntimeFailedConfig" if fails else "ok", "measured": device == "fast" or order == 1,
            "time_ms": None if fails else milliseconds(block, tile, order, device), "n_runs": 32, "compile_ms": 5.0})
    return found


def write_recorded(folder: Path, space: dict[str, Any] = SPACE, name: str = "toy") -> Path:
    """A folder of recorded spaces."""
    folder.mkdir(exist_ok=True)
    (folder / "spaces.json").write_text(json.dumps({name: space}))
    table = pa.Table.from_pylist([*rows("fast"), *rows("odd")])
    pq.write_table(table.replace_schema_metadata({"space": json.dumps(space)}), folder / f"{name}.parquet")
    return folder


def cache(device: str = "fast") -> dict[str, Any]:
    """A cache of Kernel Tuner's."""
    entries = {}
    for row in rows(device):
        settings = {name: row[name] for name in VALUES}
        time = row["time_ms"] if row["status"] == "ok" else row["status"]
        entries[",".join(map(str, settings.values()))] = {
            **settings, "time": time, "times": [time, time * 1.5] if row["status"] == "ok" else [],
            "compile_time": 5.0, "verification_time": 0, "benchmark_time": 1.0, "strategy_time": 0,
            "framework_time": 0, "timestamp": "2026-01-01 00:00:00+00:00"}
    return {"device_name": "" if device == "odd" else "The Fast One", "kernel_name": "toy", "problem_size": [640, 480],
            "tune_params_keys": list(VALUES), "tune_params": VALUES, "objective": "time", "cache": entries}


def write_cache(path: Path, device: str = "fast") -> Path:
    """A cache on disk; compressed where the name says so."""
    text = json.dumps(cache(device)).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def write_autotune(path: Path) -> Path:
    """A result of triton.autotune's."""
    timings = [[{"kwargs": {"BLOCK": block}, "num_warps": 4, "num_stages": 3}, [1 / block, 1 / block, 2 / block]]
               for block in (32, 64)]
    path.write_text(json.dumps({"key": [5, "torch.float16"], "configs_timings": timings}))
    return path
