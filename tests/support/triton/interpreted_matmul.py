"""A user's kernel under triton.autotune, run in Triton's interpreter with a `do_bench` that counts; prints JSON.

It runs with a GPU to predict for, then without. It is a program because Triton reads TRITON_INTERPRET when a kernel is
decorated.
"""

from __future__ import annotations

import json
import os
import warnings
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import torch
import triton

import seqtune.triton
from seqtune.errors import SeqtuneWarning
from tests.support.triton.matmul import matmul

NAMES = {"BLOCK_M": "TILE_M"}
BENCHMARKS: list[float] = []
HOOKS: list[int] = []


def do_bench(call: Any, quantiles: Any) -> list[float]:
    """Run once, and let the first configuration win."""
    call()
    BENCHMARKS.append(1.0 + len(BENCHMARKS))
    return [BENCHMARKS[-1]] * 3


def configs() -> list[Any]:
    """The shipped list, with a constant of the user's own and a hook."""
    listed = seqtune.triton.space("gemm", names=NAMES)
    for config in listed:
        config.kwargs["SCALE"] = 2
        config.pre_hook = lambda arguments: HOOKS.append(arguments["TILE_M"])
    return listed


def run(device: str | None) -> dict[str, Any]:
    """Run one product twice, with one key, and say what happened."""
    prune = seqtune.triton.prune("gemm", m="M", n="N", k="K", names=NAMES, device=device)
    tuned = triton.autotune(configs=configs(), key=["M", "N", "K"], prune_configs_by=prune, do_bench=do_bench)(matmul)
    BENCHMARKS.clear()
    HOOKS.clear()
    generator = torch.Generator().manual_seed(0)
    m, n, k = 70, 48, 64
    a, b = (torch.randn(shape, generator=generator).half() for shape in ((m, k), (k, n)))
    c = torch.empty(m, n, dtype=torch.float16)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            tuned[lambda meta: (triton.cdiv(m, meta["TILE_M"]), triton.cdiv(n, meta["BLOCK_N"]))](a, b, c, m, n, k)
    error = float((c.float() - 2 * a.float() @ b.float()).abs().max())
    return {"benchmarks": len(BENCHMARKS), "error": error, "best": tuned.best_config.all_kwargs(), "hooks": len(HOOKS),
            "warnings": [str(one.message) for one in said if issubclass(one.category, SeqtuneWarning)]}


print(json.dumps([run("triton:h200"), run(None)]))
