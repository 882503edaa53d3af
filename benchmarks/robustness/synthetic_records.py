"""Synthetic records: data sets of any length, with configurations of our search spaces and times from a formula.

A time is the problem's work at 50 GFLOP/s, times a factor for each value of each parameter, which is drawn once for
each kernel family, times noise of 2 %. One record in a hundred is a failure. The records of half a million rows, a row
group, are shuffled.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from seqtune.data.dataset import SCHEMA
from seqtune.data.dataset_facts import VERSION
from seqtune.data.shards.shard_files import ShardFiles
from seqtune.data.shipped_machines import SHIPPED
from seqtune.errors import KernelError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem_sets.sampler import sample_problems
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Task

GROUP = 500_000  # rows of a row group
SPEED = 5e10  # FLOP per second
DRAWN = (("conv2d", 700), ("gemm", 300))  # problems of a round
DEVICES = 4
CONSTANT = {"spread": 0.01, "samples": 9, "error": 1e-7, "build_seconds": 0.1, "run": "random"}

Part = tuple[Task, SearchSpace, np.ndarray]  # rows of a space that are measured


def write_records(path: Path, records: int, each: int, seed: int = 0) -> int:
    """Write a Parquet file of `records` records, at most `each` of a problem on a device. Returns these cases."""
    devices = _devices()
    facts = {"version": VERSION, "devices": {device.key: device.to_json() for device in devices}, "problems": {},
             "held_out": [], "provenance": {"source": "synthetic"}}
    schema = SCHEMA.with_metadata({"seqtune": json.dumps(facts)})
    generator, kernels = np.random.default_rng([seed, 1]), _FormulaTimes(seed)
    cases, left, waiting, parts = 0, records, 0, list[Part]()
    with pq.ParquetWriter(path, schema, compression="zstd", compression_level=1) as writer:
        for task in _tasks(devices, seed):
            chosen = generator.permutation(len(task))[:min(each, left)]
            chosen.sort()
            parts += [(task, space, chosen[(chosen >= part.start) & (chosen < part.stop)] - part.start)
                      for space, part in task.parts()]
            cases, left, waiting = cases + 1, left - len(chosen), waiting + len(chosen)
            if waiting >= GROUP or not left:
                writer.write_table(_table(parts, kernels, generator).cast(schema), GROUP * 2)
                waiting, parts = 0, []
            if not left:
                return cases
    raise AssertionError("rounds of problems do not end")


def _devices() -> list[Device]:
    """Four shipped llvm devices, with their facts."""
    shipped = [device for path in sorted(SHIPPED.glob("*.parquet"))
               for _, device in sorted(ShardFiles.of(path).facts.devices.items()) if device.backend == "llvm"]
    return list({device.key: device for device in shipped}.values())[:DEVICES]


def _tasks(devices: list[Device], seed: int) -> Iterator[Task]:
    """Tasks of drawn problems, each on every device, without an end; no problem comes twice."""
    seen = set[str]()
    while True:
        for operation, count in DRAWN:
            for problem in sample_problems(operation, count, seed):
                if problem.key not in seen:
                    seen.add(problem.key)
                    for device in devices:
                        try:
                            yield Task.of(problem, device)
                        except KernelError:
                            continue
        seed += 1


class _FormulaTimes:
    """The factors of each kernel family's values, and the texts of its configurations."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._of: dict[str, tuple[list[np.ndarray], list[np.ndarray]]] = {}

    def of(self, kernel: Kernel) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """By parameter: the logarithm of the factor, and the piece of the JSON text, of each value."""
        if kernel.name not in self._of:
            generator = np.random.default_rng([self._seed, 2, len(self._of)])
            factors = [generator.normal(0.0, 0.3, len(parameter.values)) for parameter in kernel.parameters]
            texts = [np.array([f"{json.dumps(parameter.name)}:{json.dumps(value)}" for value in parameter.values],
                              object) for parameter in kernel.parameters]
            self._of[kernel.name] = factors, texts
        return self._of[kernel.name]


def _table(parts: list[Part], kernels: _FormulaTimes, generator: np.random.Generator) -> pa.Table:
    """The rows of some spaces, shuffled."""
    logs, texts = list[np.ndarray](), list[np.ndarray]()
    for task, space, rows in parts:
        factors, pieces = kernels.of(space.kernel)
        values = space.rows[rows]
        flop = task.problem.names().get("flop")
        work = float(flop) if isinstance(flop, int) else 1e6
        logs.append(np.log(work / SPEED) + sum(
            (factor[values[:, column]] for column, factor in enumerate(factors)), np.zeros(len(rows))))
        text = np.full(len(rows), "{", object)
        for column, piece in enumerate(pieces):
            text = text + piece[values[:, column]] + ("}" if column == len(pieces) - 1 else ",")
        texts.append(text)
    counts = [len(rows) for _, _, rows in parts]
    total, order = sum(counts), generator.permutation(sum(counts))
    failed = generator.random(total) < 0.01
    seconds = np.exp(np.concatenate(logs)[order] + generator.normal(0.0, 0.02, total)).astype(np.float32)
    index = np.repeat(np.arange(len(parts)), counts)[order]
    words = {"device": [task.device.key for task, _, _ in parts], "problem": [task.problem.key for task, _, _ in parts],
             "kernel": [space.kernel.name for _, space, _ in parts],
             "toolchain": [task.device.toolchain for task, _, _ in parts]}
    columns: dict[str, object] = {name: _words(texts_of_parts, index) for name, texts_of_parts in words.items()}
    columns |= {"kernel_version": np.array([space.kernel.version for _, space, _ in parts], np.int32)[index],
                "configuration": pa.array(np.concatenate(texts)[order]).dictionary_encode(),
                "status": _words(["correct", "compile"], failed.astype(np.int64)),
                "seconds": pa.array(seconds, mask=failed)}
    constant = {name: pa.array([CONSTANT.get(name, 0)] * total) for name in SCHEMA.names if name not in columns}
    return pa.table({name: {**columns, **constant}[name] for name in SCHEMA.names})


def _words(texts: list[str], index: np.ndarray) -> pa.DictionaryArray:
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    codes = np.array([numbers[text] for text in texts], np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(codes[index]), pa.array(list(numbers)))
