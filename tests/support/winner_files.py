"""Small files as gemlite, aiter and Helion write them, and the public tables of choices."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from seqtune.kernels.kernel import Kernel, Parameter
from seqtune.kernels.libraries.library import Library

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


_CK = "a8w8_blockscale_1x128x128_256x{}x{}_16x16_{}_16x16x1_16x16x1_1x32x1x8_8_1x1_intrawave_v{}"
SMALL, LARGE = _CK.format("64x64", 256, "32x32_1x1", 1), _CK.format("128x128", 128, "32x32_2x2", 3)
SYMBOL = "_ZN5aiter39bf16gemm_fp32bf16_tn_64x64_splitk_cleanE"
# As aiter writes them; the column `file` is that of tables, so that a file of any name tells the kind of product.
AITER = ("file,gfx,cu_num,M,N,K,libtype,kernelId,splitK,us,kernelName,tflops,bw,errRatio\n" + "".join(
    f"a8w8_blockscale_tuned_gemm.csv,{gpu},{m},1280,8192,ck,7,{split},12.5,{name},1.0,2.0,0.0\n"
    for gpu, m, split, name in (("gfx942,304", 16, 0, SMALL), ("gfx942,304", 4096, 0, LARGE),
                                ("gfx942,304", 32, 2, SMALL), ("gfx950,256", 16, 0, SMALL)))
    + f"bf16_tuned_gemm.csv,gfx950,256,16,384,7168,asm,3,4,9.5,{SYMBOL},1.0,2.0,0.0\n")


HELION_ROWS = (  # status, milliseconds, block, warps, another setting
    ("ok", "0.500000", 32, 4, "flat"), ("ok", "0.250000", 64, 4, "flat"), ("ok", "0.400000", 64, 4, "persistent"),
    ("error", "", 64, 2, "flat"), ("timeout", "", 16, 2, "flat"), ("filtered", "", 16, 4, "flat"),
    ("ok", "0.125000", 128, 4, "flat"), ("ok", "0.600000", 32, 4, "flat"))


def scale_library(rows: str = "size_0") -> Library:
    """A library with the kernel `mine.scale` in Helion's terms, whose block is not higher than its input of `rows`."""
    return Library("mine", {"mine.scale": Kernel.of(
        name="mine.scale", operation="recorded", meaning="2 x", backends=("triton",),
        parameters=(Parameter("block_sizes_0", (16, 32, 64, 128)), Parameter("num_warps", (2, 4, 8))),
        constraints=((f"block_sizes_0 <= {rows}", "the block is higher than x"),),
        default={"block_sizes_0": 32, "num_warps": 4})}, origin="a test")


def write_helion(path: Path, details: bool = True) -> Path:
    """Write a log of Helion's autotuner for the kernel `scale` on 64 x 48 numbers, and what `details` adds to it."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("run_id", "timestamp_s", "config_id", "generation", "status", "perf_ms", "compile_time_s",
                         "config"))
        for number, (status, time, block, warps, order) in enumerate(HELION_ROWS):
            writer.writerow(("r1", f"{number}.50", f"c{number}", 0, status, time, "1.25", (
                f"Config(block_sizes=[{block}], loop_orders=[[0, 1]], num_warps={warps}, pid_type={order!r})")))
    if details:
        path.with_suffix(".meta.jsonl").write_text(json.dumps({
            "run_id": "r1", "kernel_name": "scale", "kernel_source": "", "input_shapes": "[(64, 48)]",
            "dtypes": "['torch.float16']", "hardware": "NVIDIA H200", "settings": {}}) + "\n")
    return path


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
