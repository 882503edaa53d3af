"""Check that predictions are pure functions: `python -m benchmarks.purity [--loads N] [--processes N] [--problems N]`.

Bits: several processes load each shipped checkpoint again and again, with its weights at random addresses, and answer
the same problems alone and in batches; all answers must have the same bits.
Order: processes answer many problems under each BLAS kernel that this CPU can execute, and with vector instructions of
NumPy switched off. The order of candidates must be the same but for ties: log-probabilities that differ by less than
TOLERANCE. The program exits with 1 if one of both fails.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common.program import positive, run_program
from seqtune.errors import KernelError, SeqtuneError
from seqtune.kernels.clblast.library import LIBRARY as CLBLAST
from seqtune.kernels.devices.device import Device
from seqtune.kernels.miopen.gpus import device as miopen_device
from seqtune.kernels.problem_sets.sampler import sample_problems
from seqtune.kernels.task import Task
from seqtune.predictor.candidate import Candidate
from seqtune.predictor.checkpoint_folder import SHIPPED
from seqtune.predictor.model import load_model
from seqtune.predictor.sequence import beam

TOLERANCE = 1e-4  # of log-probabilities
BATCHES = (1, 7, 64)
TOP = 5
COMPARED = 64  # problems whose bits are compared
SEED = 36
# OpenBLAS kernels, and what Linux calls the instructions that each needs.
KERNELS = {"Prescott": "pni", "Nehalem": "sse4_2", "Sandybridge": "avx", "Haswell": "avx2", "Zen": "avx2",
           "SkylakeX": "avx512vl", "Cooperlake": "avx512_bf16"}
DEVICES = {  # described, so that all machines answer the same questions
    "llvm": Device("llvm:described", "llvm", "znver4", "avx512", threads=2, compute_units=2, vector_bits=512,
                   vector_registers=32, l1_bytes=32 << 10, l2_bytes=1 << 20, l3_bytes=1 << 25, peak_gflops=200.0,
                   bandwidth_gbs=20.0),
    "opencl": Device("opencl:described", "opencl", "znver4", "opencl-c-1.2", threads=2, compute_units=2,
                     vector_bits=512, l1_bytes=32 << 10, l2_bytes=1 << 20, local_memory=512 << 10, max_work_group=4096,
                     peak_gflops=200.0, bandwidth_gbs=20.0),
    "miopen": miopen_device("miopen:gfx906_60")}

Answers = list[list[Candidate]]
Orders = list[list[tuple[str, float]]]  # the candidates of each problem with their log-probabilities


def names() -> list[str]:
    """The shipped checkpoints."""
    return sorted(path.name for path in SHIPPED.iterdir() if (path / "config.json").is_file())


def tasks_of(model: Any, count: int) -> list[Task]:
    """At least `count` tasks of all kinds that a model answers, the same ones for the same count."""
    kernels = [CLBLAST.kernel(name) for name in CLBLAST.table] if CLBLAST.name in model.libraries else None
    kinds = [(operation, DEVICES[backend]) for backend in model.backends
             for operation in (("gemm",) if kernels else ("conv2d",) if backend == "miopen" else ("conv2d", "gemm"))]
    tasks = []
    for operation, device in kinds:
        for problem in sample_problems(operation, -(-count // len(kinds)), SEED):
            try:
                tasks.append(Task.of(problem, device, kernels) if kernels else model.task(problem, device))
            except KernelError:
                continue
    return tasks


def at_random_addresses(model: Any, generator: np.random.Generator) -> Any:
    """The model with each of its weights at a random address."""
    return replace(model, state={name: _moved(array, int(generator.integers(64)))
                                 for name, array in model.state.items()})


def _moved(array: NDArray[Any], elements: int) -> NDArray[Any]:
    raw = np.empty(array.size + elements, array.dtype)
    raw[elements:] = array.ravel()
    return raw[elements:].reshape(array.shape)


@contextmanager
def searched_together(count: int) -> Iterator[None]:
    """Let checkpoints search `count` tasks together."""
    before = beam.TOGETHER
    beam.TOGETHER = count
    try:
        yield
    finally:
        beam.TOGETHER = before


def digest(answers: Answers) -> str:
    """The digest of all bits of some answers."""
    text = json.dumps([[(candidate.configuration.key, float(candidate.log_probability or 0.0).hex(),
                         None if candidate.confidence is None else [float(number).hex() for number in (
                             candidate.confidence.share, candidate.confidence.low, candidate.confidence.high)])
                        for candidate in answer] for answer in answers])
    return hashlib.sha256(text.encode()).hexdigest()


def digests(name: str, loads: int, seed: int) -> list[str]:
    """The digests of the answers of each load and each size of a batch."""
    generator = np.random.default_rng(seed)
    listed = []
    for _ in range(loads):
        model = at_random_addresses(load_model(SHIPPED / name), generator)
        tasks = tasks_of(model, COMPARED)
        for size in BATCHES:
            with searched_together(size):
                listed.append(digest([answer for begin in range(0, len(tasks), size)
                                      for answer in model.propose(tasks[begin:begin + size], TOP)]))
    return listed


def orders(name: str, count: int) -> Orders:
    """The candidates of each problem with their log-probabilities."""
    model = load_model(SHIPPED / name)
    return [[(f"{candidate.configuration.kernel} {candidate.configuration.key}", candidate.log_probability or 0.0)
             for candidate in answer] for answer in model.propose(tasks_of(model, count), TOP)]


def environments() -> dict[str, dict[str, str]]:
    """The environments whose answers are compared, by a description: the first one is the usual one."""
    flags = set(Path("/proc/cpuinfo").read_text().split()) if Path("/proc/cpuinfo").exists() else set()
    config: dict[str, Any] = np.show_config(mode="dicts")  # type: ignore[assignment]
    vectors = config["SIMD Extensions"].get("found", [])
    return {"as it is": {},
            **{f"OPENBLAS_CORETYPE={kernel}": {"OPENBLAS_CORETYPE": kernel} for kernel, flag in KERNELS.items()
               if flag in flags},
            **{f"NumPy without {' '.join(vectors[first:])}": {"NPY_DISABLE_CPU_FEATURES": " ".join(vectors[first:])}
               for first in range(len(vectors))}}


def compared(first: Orders, other: Orders) -> dict[str, Any]:
    """How two lists of orders differ: problems with ties that changed places, with another order, and the numbers."""
    ties, different, largest = 0, 0, 0.0
    for one, two in zip(first, other, strict=True):
        numbers, others = dict(one), dict(two)
        largest = max([largest, *(abs(numbers[key] - others[key]) for key in numbers.keys() & others.keys())])
        if [key for key, _ in one] != [key for key, _ in two]:
            # a candidate of one list alone took the place of another: it is a tie if the numbers there agree
            tied = all(abs(number - another) <= TOLERANCE and abs(number - numbers.get(key, number)) <= TOLERANCE
                       for (_, number), (key, another) in zip(one, two, strict=True))
            ties, different = ties + tied, different + (not tied)
    return {"problems": len(first), "ties": ties, "other_order": different, "largest_difference": largest}


def run_again(arguments: Sequence[str], environment: Mapping[str, str]) -> Any:
    """The JSON that this program prints in a new process. Raises SeqtuneError if it fails."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-m", "benchmarks.purity", *arguments], text=True,
                          capture_output=True, check=False, env={**os.environ, **environment})
    if done.returncode:
        raise SeqtuneError(f"a process that predicts failed: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Run all processes; the results by checkpoint."""
    results: dict[str, Any] = {}
    for name in given.checkpoints:
        seen: list[str] = []
        for number in range(given.processes):
            loads = given.loads // given.processes + (number < given.loads % given.processes)
            seen += run_again(["digests", name, str(loads), str(number)], {"PYTHONHASHSEED": str(number)})
        usual, *others = ((text, run_again(["orders", name, str(given.problems)], environment))
                          for text, environment in environments().items())
        results[name] = {"loads": given.loads, "processes": given.processes, "answers": len(seen),
                         "different_bits": len(set(seen)) - 1,
                         "orders": {text: compared(usual[1], answers) for text, answers in others}}
    return results


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoints", nargs="+", choices=names(), default=names())
    parser.add_argument("--loads", type=positive, default=100, help="loads of each checkpoint by all processes")
    parser.add_argument("--processes", type=positive, default=10)
    parser.add_argument("--problems", type=positive, default=2000, help="problems whose order is compared")
    if sys.argv[1:2] in (["digests"], ["orders"]):  # a process of this program
        what, name, *numbers = sys.argv[1:]
        print(json.dumps(digests(name, *map(int, numbers)) if what == "digests" else orders(name, *map(int, numbers))))
        return
    results = measure(parser.parse_args())
    print(json.dumps({"tolerance": TOLERANCE, **results}, indent=1))
    if any(row["different_bits"] or any(part["other_order"] for part in row["orders"].values())
           for row in results.values()):
        sys.exit(1)


if __name__ == "__main__":
    run_program("purity", main)
