"""MIOpen's solvers as kernels: what they solve, and their spaces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seqtune.errors import KernelError
from seqtune.integrations.miopen.formats.export import best_of, entries
from seqtune.integrations.miopen.formats.importing import read_files, solver_of
from seqtune.integrations.miopen.kernels.gpus import device
from seqtune.integrations.miopen.kernels.solver import SOLVERS, find_solver
from seqtune.kernels.declaration import from_json, to_json
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns
from seqtune.kernels.registry import kernel, names
from seqtune.kernels.space import SearchSpace, spaces_for
from tests.support.miopen_files import MATRIX_LABELS, perf_text

MI50 = device("gfx906_60")


def test_problems_as_columns_are_those_made_one_by_one() -> None:
    made = [Problem.make("convnd", n=n, c=8, h=None if n % 3 else n, w=n, k=4 * n, r=3, s=3, pad_h=1, pad_w=1,
                         stride_h=1 + n % 2, stride_w=1 + n % 2, out_h=n, direction="backward_weights")
            for n in range(4, 40)]
    columns = ProblemColumns.of(made)
    assert columns.problems() == [(problem.key, problem) for problem in made]
    for name in columns.values:
        single = [problem.names()[name] for problem in made]
        assert [value if known else None for value, known in
                zip(columns.values[name].tolist(), columns.known[name].tolist(), strict=True)] == single


def test_every_solver_declares_a_kernel_that_files_can_carry() -> None:
    for name in SOLVERS:
        found = kernel(f"miopen.{name}")
        assert from_json(to_json(found)) == found
        assert all(constraint.reason for constraint in (*found.constraints, *found.solves, *found.prior))
    assert not any(name.startswith("miopen.") for name in names())
    with pytest.raises(KernelError, match="ConvAsm1x1U"):
        kernel("miopen.ConvNone")


def test_a_problem_has_the_spaces_of_the_solvers_that_apply() -> None:
    problem = Problem.make("convnd", n=32, c=64, h=56, w=56, k=64, r=3, s=3, pad_h=1, pad_w=1)
    names = {space.kernel.name for space in spaces_for(problem, MI50)}
    assert {"miopen.ConvAsm3x3U", "miopen.ConvOclDirectFwd", "miopen.ConvMlirIgemmFwd"} <= names
    assert "miopen.ConvAsm1x1U" not in names
    for space in spaces_for(problem, MI50):
        assert space.default in space


def test_what_the_tuner_keeps_to_is_a_part_of_the_space() -> None:
    problem = Problem.make("convnd", n=32, c=64, h=28, w=28, k=256, r=1, s=1)
    kernel = find_solver("ConvAsm1x1U").kernel
    searched = replace(kernel, constraints=(*kernel.constraints, *kernel.prior))
    whole, narrow = (SearchSpace(one, problem, MI50) for one in (kernel, searched))
    assert 0 < len(narrow) < len(whole)
    assert all(one in whole for one in narrow.sample(np.random.default_rng(0), 20))


def test_a_solver_with_a_table_has_a_space_of_the_rows_that_were_seen(tmp_path: Path) -> None:
    name = "ConvAsmImplicitGemmGTCDynamicFwdXdlopsNHWC"
    data, (report,) = read_files([perf_text(tmp_path / "gfx942130.udb.txt", MATRIX_LABELS)])
    assert report["skipped"] == {}
    solver = solver_of(data, name)
    place = next(iter(data.devices.values()))
    for problem in data.problems():
        space = SearchSpace(solver.kernel, problem, place)
        assert {(one["row"], one["gks"] > 0) for one in space} == {(7, False), (9, True)}  # type: ignore[operator]
    assert from_json(to_json(solver.kernel)) == solver.kernel
    with pytest.raises(KernelError, match="table"):
        entries(best_of(data, place), place)
