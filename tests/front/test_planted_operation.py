"""An operation from outside: this file alone adds a row sum with one kernel, tunes, trains, predicts and verifies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import seqtune
from seqtune.data.record import Status
from seqtune.kernels.devices.device import Device
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Configuration, Kernel, Parameter
from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.libraries.library import Library
from seqtune.kernels.libraries.table import IN_USE
from seqtune.kernels.llvm.launch import Launch, LLVMImplementation, Phase
from seqtune.kernels.operations.feature import Feature, Value
from seqtune.kernels.operations.operation import Operands, Operation, ProblemView, Shape
from seqtune.kernels.operations.table import OPERATIONS
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.problem_sets.sampler import sample_problems
from seqtune.kernels.problem_sets.similarity import near
from seqtune.predictor.checkpoint import Checkpoint
from tests.support.installation.optional import TRAINING, needs


class RowSum(Operation):
    """The sum of every row of a matrix: one operand, nothing constant, neither bias nor activation."""

    name = "row_sum"
    meaning = "sums of the rows of a matrix"
    example = "row_sum rows=32 columns=48"
    features = (Feature("rows", "rows of the matrix", required=True),
                Feature("columns", "columns of the matrix", required=True))
    derived = (("flop", Expression("rows * columns")),)
    words = ("sum",)
    sizes = quantities = tiled_sizes = ("rows", "columns")

    def operands(self, problem: ProblemView) -> dict[str, Shape]:
        return {"matrix": (problem.size("rows"), problem.size("columns"))}

    def output(self, problem: ProblemView) -> Shape:
        return (problem.size("rows"),)

    def reference(self, problem: ProblemView, operands: Operands) -> NDArray[np.float64]:
        return np.asarray(operands["matrix"].sum(axis=1, dtype=np.float64))

    def draw(self, generator: np.random.Generator) -> dict[str, Value]:
        rows, columns = (16 * int(size) for size in generator.integers(1, 64, 2))
        return {"rows": rows, "columns": columns}


class RowSumImplementation(LLVMImplementation):
    """One vector accumulator per row; a task sums `task_rows` rows."""

    includes = "everything"

    def source(self, problem: Problem, device: Device, configuration: Configuration) -> KernelSource:
        lanes = configuration.number("vector")
        vector, total = f"<{lanes} x float>", f"float @llvm.vector.reduce.fadd.v{lanes}f32"
        return KernelSource(f"""
declare {total}(float, {vector})
define void @row_sum(ptr %matrix, ptr %0, ptr %1, ptr %sums, ptr %2, ptr %sizes, i64 %begin, i64 %end) {{
entry:
  %columns = load i64, ptr %sizes
  %task_rows_p = getelementptr i64, ptr %sizes, i64 1
  %task_rows = load i64, ptr %task_rows_p
  %from = mul i64 %begin, %task_rows
  %to = mul i64 %end, %task_rows
  br label %row
row:
  %r = phi i64 [ %from, %entry ], [ %r1, %done ]
  %left = icmp slt i64 %r, %to
  br i1 %left, label %first, label %out
first:
  %start = mul i64 %r, %columns
  %line = getelementptr float, ptr %matrix, i64 %start
  br label %step
step:
  %i = phi i64 [ 0, %first ], [ %i1, %step ]
  %sum = phi {vector} [ zeroinitializer, %first ], [ %next, %step ]
  %p = getelementptr float, ptr %line, i64 %i
  %v = load {vector}, ptr %p, align 4
  %next = fadd {vector} %sum, %v
  %i1 = add i64 %i, {lanes}
  %more = icmp slt i64 %i1, %columns
  br i1 %more, label %step, label %done
done:
  %total = call reassoc {total}(float 0.0, {vector} %next)
  %at = getelementptr float, ptr %sums, i64 %r
  store float %total, ptr %at
  %r1 = add i64 %r, 1
  br label %row
out:
  ret void
}}
""")

    def launch(self, problem: Problem, device: Device, configuration: Configuration) -> Launch:
        task_rows = configuration.number("task_rows")
        return Launch((problem.size("columns"), task_rows), (Phase("row_sum", problem.size("rows") // task_rows),))


ROW_SUM = RowSum()
ROW_SUM_IMPLEMENTATION = RowSumImplementation()
ROW_SUM_KERNEL = Kernel.of(
    name="sums.row_sum", operation="row_sum", meaning="row sums with a vector of partial sums",
    parameters=(Parameter("vector", (1, 2, 4, 8), "floats added at once"),
                Parameter("task_rows", (1, 2, 4, 8, 16), "rows that a task sums")),
    derived=(("tasks", "rows // task_rows"),),
    constraints=(("columns % vector == 0", "a vector must not reach into the next row"),
                 ("rows % task_rows == 0", "a task must not reach beyond the last row")),
    default={"vector": 4, "task_rows": 1},
    implementation=f"{__name__}:ROW_SUM_IMPLEMENTATION", backends=("llvm",))


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPERATIONS, "row_sum", f"{__name__}:ROW_SUM")
    monkeypatch.setitem(IN_USE, "sums", Library("sums", {"sums.row_sum": f"{__name__}:ROW_SUM_KERNEL"},
                                                {"row_sum": f"{__name__}:ROW_SUM"}, backends=("llvm",)))


def test_its_problems_are_written_sampled_and_compared() -> None:
    problem = parse_problem("sum rows=32 columns=48")
    assert problem == parse_problem(problem.key) == Problem.make("row_sum", rows=32, columns=48)
    assert problem.key == "row_sum rows=32 columns=48"
    assert len(set(sample_problems("row_sum", 20, seed=0))) == 20
    assert near(problem, Problem.make("row_sum", rows=32, columns=58))
    assert not near(problem, Problem.make("row_sum", rows=32, columns=64))


@pytest.mark.slow
@needs(*TRAINING)
@pytest.mark.usefixtures("few_rounds", "few_trees")
def test_it_goes_through_tune_train_predict_and_verify(tmp_path: Path) -> None:
    problems = sample_problems("row_sum", 5, seed=1)
    report = seqtune.tune(problems, "llvm:0", strategy="random", trials=3, journal=tmp_path / "journal.sqlite")
    assert [result.problem for result in report.results] == problems
    assert all(result.best is not None for result in report.results)
    seqtune.export(tmp_path / "data.parquet", journal=tmp_path / "journal.sqlite")
    seqtune.train(tmp_path / "data.parquet", tmp_path / "checkpoint", epochs=1, extra=4, force=True)
    assert {"row_sum.rows", "row_sum.columns"} <= set(Checkpoint.load(tmp_path / "checkpoint").vocabulary.quantities)
    prediction = seqtune.predict("sum rows=96 columns=320", "llvm:0", 3, verify=True, seconds=60,
                                 checkpoint=tmp_path / "checkpoint", journal=tmp_path / "verified.sqlite")
    assert prediction.configuration.kernel == "sums.row_sum"
    for candidate in [*prediction.candidates, prediction.default]:
        assert candidate.measurement is not None
        assert candidate.measurement.status is Status.CORRECT


@needs("torch")
def test_a_checkpoint_of_today_still_loads_and_grows_by_it() -> None:
    checkpoint = Checkpoint.load()
    before = checkpoint.vocabulary.quantities
    assert not any(name.startswith("row_sum") for name in before)
    vocabulary = checkpoint.vocabulary.extended([ROW_SUM_KERNEL], [], [])
    assert vocabulary.quantities[:len(before)] == before  # operations added since the training come between
    assert vocabulary.quantities[-2:] == ("row_sum.rows", "row_sum.columns")
    grown = checkpoint.network.grown(vocabulary)
    old, new = checkpoint.network.target.fit.weight, grown.target.fit.weight
    assert bool((new[:, :old.shape[1]] == old).all())
    assert not bool(new[:, old.shape[1]:].any())
