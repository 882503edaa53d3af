"""Chosen configurations: the names of their functions, and backends that have no files."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seqtune.errors import MisuseError, UnpreparedMisuseError
from seqtune.kernels.linting.kernel import typical_device
from seqtune.tuner.building.chosen import files_of
from tests.support.built_folders import chosen


def test_a_backend_without_files_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqtune.tuner.building.chosen.WRITERS", {"other": "nowhere:at_all"})
    with pytest.raises(MisuseError, match="kernels of opencl cannot be built to files; those of other can"):
        files_of([chosen("gemm m=64 n=64 k=64", typical_device("opencl"))])


def test_a_problem_that_is_too_large_for_the_check_is_refused() -> None:
    large = chosen("gemm m=100000 n=100000 k=64", typical_device("llvm"))
    with pytest.raises(UnpreparedMisuseError, match="y has 10000000000 elements"):
        files_of([replace(large, device=replace(large.device, backend="opencl"))])


def test_problems_of_one_name_in_c_are_refused_together() -> None:
    kernel = chosen("gemm m=8 n=8 k=8", typical_device("llvm"))
    with pytest.raises(MisuseError, match="2 problems have the name product in C, such as gemm m=8 n=8 k=8; build"):
        files_of([kernel, kernel])


def test_several_kernels_of_opencl_have_a_folder_each() -> None:
    files = files_of([chosen("gemm m=9 n=21 k=13", typical_device("opencl"), name=name) for name in "ab"])
    assert {"README.md", "a/a.cl", "b/b.cl", "a/launch.json", "b/b.h"} <= set(files)
