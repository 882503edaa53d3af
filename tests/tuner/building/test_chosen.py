"""Chosen configurations: the names of their functions, and backends that have no files."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seqtune.errors import MisuseError, UnpreparedMisuseError
from seqtune.kernels.linting.kernel import typical_device
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.space import spaces_for
from seqtune.tuner.building.chosen import Chosen, files_of, function_name


def test_the_name_of_a_function_is_a_name_in_c() -> None:
    name = function_name(parse_problem("gemm m=64 n=8 k=9 trans_a=yes"))
    assert name.isidentifier()
    assert name.startswith("gemm_m64_n8_k9_")


def test_a_backend_without_files_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqtune.tuner.building.chosen.WRITERS", {"other": "nowhere:at_all"})
    problem, device = parse_problem("gemm m=64 n=64 k=64"), typical_device("opencl")
    space = spaces_for(problem, device)[0]
    chosen = Chosen("product", problem, device, space.kernel, space[0], "the first proposal")
    with pytest.raises(MisuseError, match="kernels of opencl cannot be built to files; those of other can"):
        files_of([chosen])


def test_a_problem_that_is_too_large_for_the_check_is_refused() -> None:
    problem, device = parse_problem("gemm m=100000 n=100000 k=64"), typical_device("llvm")
    space = spaces_for(problem, device)[0]
    chosen = Chosen("product", problem, replace(device, backend="opencl"), space.kernel, space[0], "the first proposal")
    with pytest.raises(UnpreparedMisuseError, match="y has 10000000000 elements"):
        files_of([chosen])
