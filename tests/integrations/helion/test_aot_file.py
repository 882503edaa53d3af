"""The file of a dispatch for Helion's ahead-of-time kernels: plain Python, which Helion's own loader takes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import seqtune.helion
from seqtune.errors import MisuseError
from tests.support.devices import described_gpu
from tests.support.dispatchers import by_size, changed, saved

NVIDIA = {"matrix_instr_nonkdim": 0, "waves_per_eu": 0, "kpack": 1, "GROUP_M": 1}
SIZES = {"m": "args[0].shape[0]", "n": "args[1].shape[1]", "k": "args[0].shape[1]"}
MEMBERS = [{"block_sizes": [block, 64, 32], "l2_groupings": [1], "num_stages": 3, "num_warps": 4}
           for block in (16, 128)]


def dispatch(folder: Path, **more: int) -> Path:
    members = [changed("triton.gemm", **NVIDIA, BLOCK_M=block, BLOCK_N=64, **more) for block in (16, 128)]
    return saved(folder, by_size("m", 64, members, described_gpu("triton", "h200"), "m=1..4096", "n=64..4096",
                                 "k=64..4096", "dtype=fp16"))


def matrices(m: int) -> tuple[Any, Any]:
    return SimpleNamespace(shape=(m, 256)), SimpleNamespace(shape=(256, 1024))


def test_the_file_answers_with_helions_words_and_without_seqtune(tmp_path: Path) -> None:
    text = seqtune.helion.aot_file(dispatch(tmp_path), "matmul", **SIZES)
    assert "import seqtune" not in text
    names: dict[str, Any] = {"__name__": "heuristic"}
    exec(text, names)
    assert [names["autotune_matmul"](*matrices(m)) for m in (32, 512)] == MEMBERS
    assert [names["key_matmul"](*matrices(m)) for m in (32, 512, 1 << 21)] == [0, 1, -1]
    with pytest.raises(LookupError, match="no configuration is valid"):
        names["autotune_matmul"](*matrices(1 << 21))


def test_helions_loader_reads_it(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed: make develop")
    cache: Any = pytest.importorskip("helion.autotuner.aot_cache", reason="helion is not installed").AOTAutotuneCache
    path = tmp_path / "heuristic_matmul.py"
    path.write_text(seqtune.helion.aot_file(dispatch(tmp_path), "matmul", **SIZES))
    module = cache._load_heuristic_module(path, None)
    assert cache._parse_configs_from_autotune(module, "matmul") == MEMBERS


@pytest.mark.parametrize(("function", "features", "said"), [
    ("matmul", {"m": "args[0].shape[0]"}, "give m, n, k by its args, .*'matmul' with m"),
    ("mat mul", SIZES, "found 'mat mul'")])
def test_what_is_missing_is_said(function: str, features: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match=said):
        seqtune.helion.aot_file(dispatch(tmp_path), function, **features)


def test_a_member_that_helion_cannot_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="splits k, which Helion's kernel does not"):
        seqtune.helion.aot_file(dispatch(tmp_path, SPLIT_K=2), "matmul", **SIZES)
