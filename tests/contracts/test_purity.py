"""Contract of every shipped checkpoint, and of one of few data: a prediction is a pure function of what was asked.

The bits of an answer are the same alone and in a batch, wherever the weights lie, on every load and in every process.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from seqtune.data.measured_tasks import measured_tasks
from seqtune.integrations.clblast.kernels.library import LIBRARY as CLBLAST
from seqtune.kernels.problem_sets.sampler import sample_problems
from seqtune.kernels.task import Task
from seqtune.predictor.candidate import Candidate
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.checkpoint_folder import SHIPPED
from seqtune.predictor.learning.tasks.training import train_model
from seqtune.predictor.proposing import Candidates
from seqtune.predictor.sequence import beam
from seqtune.predictor.trees.cost_trees import TreesOptions
from tests.support.devices import device_of, operations_of, usual
from tests.support.learning.short_training import QUICK
from tests.support.synthetic import NARROW, WIDE, data, registered

ROOT = Path(__file__).resolve().parents[2]
SMALL = "few data"
NAMES = (*sorted(path.name for path in SHIPPED.iterdir() if (path / "config.json").is_file()), SMALL)
DISTINCT, BATCHES = 16, (7, 64)
SHIFTS = (1, 12)  # floats after the begin of a cache line
TOLERANCE = 1e-4  # of log-probabilities: CPUs differ by less in the bits of exp and log
# The code that answers a prediction, beside `seqtune.predictor.translator.rows`.
PATH = (
    *(f"predictor/{name}" for name in (
        "translator/numpy_layers", "translator/word_vectors", "translator/numpy_judge", "translator/numpy_translator",
        "proposing", "checkpoint", "trees/ranker", "trees/forest", "correction/correction", "sequence/beam",
        "sequence/grammar", "sequence/numeric_codes")),
    *(f"integrations/miopen/predictor/{name}" for name in ("chains", "learned")))
PROBLEMS = ("conv2d n=1 c=64 h=28 w=28 k=96 r=3 s=3 pad=1", "gemm m=100 n=48 k=512")
PROGRAM = """
import json, sys
import seqtune
print(json.dumps([[[candidate.configuration.key, candidate.probability.hex()]
                   for candidate in seqtune.predict(problem, device, top=5, checkpoint=name, evidence=False).candidates]
                  for name, device, problem in json.loads(sys.argv[1])]))
"""
# CPU time of this process's other threads: BLAS has some since NumPy was imported, and they may not be used.
THREADS = """
import os, threading
from seqtune.predictor.predictors import cached_checkpoint
from tests.support.devices import device_of
from seqtune.kernels.problem_sets.parse import parse_problem
model = cached_checkpoint("default")
task = model.task(parse_problem("conv2d n=1 c=64 h=28 w=28 k=96 r=3 s=3 pad=1"), device_of("llvm"))
def ticks():
    main = threading.get_native_id()
    return sum(sum(map(int, open(f"/proc/self/task/{number}/stat").read().rpartition(")")[2].split()[11:13]))
               for number in map(int, os.listdir("/proc/self/task")) if number != main)
before = ticks()
for _ in range(30):
    model.propose([task], 5)
print(len(os.listdir("/proc/self/task")), ticks() - before)
"""


@cache
def opened(name: str) -> tuple[Any, tuple[Task, ...]]:
    """A model and tasks of different kinds, of which most have several kernels and long sentences."""
    model: Any
    if name == SMALL:
        options = replace(QUICK, epochs=1, validation=0.0,
                          trees=TreesOptions(rounds=20, models=2, threads=1))
        with registered():
            toy = data(8, held_out=0, sampled=40, devices=(WIDE, NARROW))
            tasks = measured_tasks(toy, held_out=False)
            model, _ = train_model(tasks, [], options)
        return model, tuple(measured.task for measured in tasks[:DISTINCT])
    model = Checkpoint.load(SHIPPED / name)
    if name == "clblast":
        kernels = [CLBLAST.kernel(kernel) for kernel in CLBLAST.table]
        return model, tuple(Task.of(problem, device_of("opencl"), kernels)
                            for problem in sample_problems("gemm", DISTINCT, 5))
    kinds = [(operation, backend) for backend in model.backends for operation in operations_of(backend)]
    each = DISTINCT // len(kinds)
    return model, tuple(model.task(usual(problem, backend), device_of(backend)) for operation, backend in kinds
                        for problem in sample_problems(operation, each, 5))


@cache
def alone(name: str) -> list[list[Candidate]]:
    """The answers to each task on its own."""
    model, tasks = opened(name)
    return [model.propose([task], 5)[0] for task in tasks]


def shifted(array: NDArray[Any], elements: int) -> NDArray[Any]:
    """A copy that begins `elements` after a cache line's begin."""
    raw = np.empty(array.nbytes + 64 + elements * array.itemsize, np.uint8)
    begin = -raw.ctypes.data % 64 + elements * array.itemsize
    copy = raw[begin:begin + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


@pytest.mark.parametrize("name", NAMES)
class TestPurity:
    @pytest.mark.parametrize("size", BATCHES)
    def test_an_answer_has_the_same_bits_alone_and_in_a_batch(self, name: str, size: int,
                                                              monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(beam, "TASKS", size)
        model, tasks = opened(name)
        order = np.random.default_rng(size).permutation(np.resize(np.arange(len(tasks)), size))
        wanted = alone(name)
        assert model.propose([tasks[index] for index in order], 5) == [wanted[index] for index in order]

    @pytest.mark.parametrize("elements", SHIFTS)
    def test_an_answer_has_the_same_bits_wherever_the_weights_lie(self, name: str, elements: int) -> None:
        model, tasks = opened(name)
        moved = replace(model, state={key: shifted(array, elements) for key, array in model.state.items()})
        assert moved.propose(tasks, 5) == alone(name)

    def test_an_answer_has_the_same_bits_when_the_checkpoint_is_loaded_again(self, name: str, tmp_path: Path) -> None:
        model, tasks = opened(name)
        again = Checkpoint.load(model.save(tmp_path / "again") if name == SMALL else SHIPPED / name)
        assert again.propose(tasks, 5) == alone(name)


def run(program: str, *arguments: str, **environment: str) -> str:
    """Run a program in a new process, and return what it prints."""
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False,
                          env={**os.environ, **environment}, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_all_processes_give_the_same_bits() -> None:
    asked = json.dumps([("default", "llvm:0", problem) for problem in PROBLEMS]
                       + [("miopen", "miopen:gfx906_60", "conv2d n=32 c=64 h=28 w=28 k=256 r=1 s=1")])
    first = run(PROGRAM, asked, PYTHONHASHSEED="1", OPENBLAS_NUM_THREADS="1")
    assert len(json.loads(first)) == 3
    assert run(PROGRAM, asked, PYTHONHASHSEED="2", OPENBLAS_CORETYPE="Haswell") == first


@cache
def printed(asked: str, disabled: str) -> str:
    """What the program prints without some of NumPy's vector instructions."""
    return run(PROGRAM, asked, NPY_DISABLE_CPU_FEATURES=disabled)


@pytest.mark.parametrize("kept", range(3))
def test_the_order_is_the_same_with_fewer_of_numpys_vector_instructions(kept: int) -> None:
    config: dict[str, Any] = np.show_config(mode="dicts")  # type: ignore[assignment]
    found = config["SIMD Extensions"].get("found", [])
    if len(found) <= kept:
        pytest.skip("NumPy has found no vector instructions here that could be switched off")
    asked = json.dumps([("default", "llvm:0", problem.brief()) for operation in ("conv2d", "gemm")
                        for problem in sample_problems(operation, 10, 36)])
    with_all, with_fewer = (json.loads(printed(asked, " ".join(features))) for features in ((), found[kept:]))
    for answer, again in zip(with_all, with_fewer, strict=True):
        logs = {key: np.log(float.fromhex(probability)) for key, probability in answer}
        for (key, _), (another, probability) in zip(answer, again, strict=True):
            # candidates change places only where they are equally probable
            assert key == another or abs(logs[key] - np.log(float.fromhex(probability))) <= TOLERANCE


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are watched in /proc")
def test_a_prediction_takes_one_thread() -> None:
    threads, ticks = map(int, run(THREADS, PYTHONPATH=str(ROOT), OPENBLAS_NUM_THREADS="4").split())
    if threads == 1:
        pytest.skip("BLAS has no threads here that a prediction could wake, as on one core")
    assert ticks <= 1


@pytest.mark.parametrize("module", PATH)
def test_what_answers_a_prediction_multiplies_no_matrices_with_numpy(module: str) -> None:
    tree = ast.parse((ROOT / f"{module}.py").read_text())
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.MatMult) or (
        isinstance(node, ast.Attribute) and ast.unparse(node).removeprefix("np.") in (
            "matmul", "dot", "einsum", "inner", "tensordot", "vdot", "linalg"))]


def test_equal_proposals_are_ordered_by_their_numbers() -> None:
    _, (task, *_) = opened("default")
    numbers, searched = np.array([9, 3, 7, 5]), np.log([0.2, 0.2, 0.4, 0.2])
    assert Candidates(task, numbers, searched, np.zeros(4)).ordered().numbers.tolist() == [3, 5, 7, 9]
    assert Candidates(task, numbers, searched, np.full(4, np.nan)).ordered().numbers.tolist() == [7, 3, 5, 9]
