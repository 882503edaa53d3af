"""Small files of choices as gemlite and aiter write them, and the public tables of their choices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .paths import WINNERS

_BLOCK = {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 8, "A_load_order": 2,
          "num_warps": 4, "num_ctas": 1, "num_stages": 4}
# By gemlite's names of kernels: key -> settings. All are valid on an H100.
GEMLITE: dict[str, dict[str, dict[str, int]]] = {
    "GEMV": {},
    "GEMM": {"(1024, 4096, 4096, 128, 8, 104)": _BLOCK,
             "(96, 4096, 4096, 4096, 1, 408)": {**_BLOCK, "num_stages": 5, "NUM_STAGES": 5}},
    "GEMM_SPLITK": {"(16, 4096, 4096, 64, 8, 104)": {**_BLOCK, "BLOCK_SIZE_M": 16, "SPLIT_K": 16}},
    "GEMV_REVSPLITK": {"(1, 4096, 4096, 128, 8, 104)": {
        "BLOCK_SIZE_M": 1, "BLOCK_SIZE_N": 512, "BLOCK_SIZE_K": 32, "A_load_order": 1, "dot_prod_mode": 0,
        "num_warps": 4, "num_stages": 2}},
    "GEMV_SPLITK": {"(1, 4096, 4096, 4096, 1, 408)": {
        "BLOCK_SIZE_M": 1, "BLOCK_SIZE_N": 1, "BLOCK_SIZE_K": 1024, "GROUP_SIZE_M": 8, "SPLIT_K": 1,
        "A_load_order": 0, "dot_prod_mode": 0, "num_warps": 4, "num_stages": 1}},
}


def write_gemlite(path: Path, content: object = GEMLITE) -> Path:
    """Write a JSON file of gemlite's."""
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def public_table(name: str) -> Path:
    """The path of a public table of choices; the test is skipped where it is not."""
    path = WINNERS / name
    if not path.is_file():
        pytest.skip(f"there is no {name} in ../shared/winners or where SEQTUNE_WINNERS_DATA says")
    return path
