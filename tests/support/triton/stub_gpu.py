"""triton.autotune on a GPU that is not there: a driver that only tells its name, and kernels that do nothing.

`tuned` runs Triton's own autotuner with its listener and its disk cache, which its interpreter leaves out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

TIMES = {32: [0.5, 0.4, 0.6], 64: [0.25, 0.25, 0.3], 128: [float("inf")] * 3}  # by BLOCK; milliseconds


@contextmanager
def stub_gpu(monkeypatch: Any) -> Iterator[None]:
    """Make Triton's active driver one of sm_90 that launches nothing."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    monkeypatch.setattr(driver, "_active", SimpleNamespace(get_current_target=lambda: GPUTarget("cuda", 90, 32)))
    monkeypatch.setattr(JITFunction, "run", lambda self, *arguments, **options: None)
    yield


def tuned(m: int, cache_results: bool = False) -> Any:
    """The autotuner of a kernel `scale` after a launch for this key; a benchmark answers from TIMES."""
    import numpy as np
    import triton
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    block: list[int] = []
    configs = [triton.Config({"BLOCK": size}, num_warps=size // 16) for size in TIMES]
    tuner = Autotuner(JITFunction(scale), ["x", "M", "N", "BLOCK"], configs, ["M", "N"], None, None,
                      do_bench=lambda call, quantiles: TIMES[block.pop(0)], cache_results=cache_results)
    block += TIMES
    tuner.run(np.zeros(3, np.float16), m, 24, grid=(1,), warmup=False)
    return tuner


def scale(x, M, N, BLOCK):  # type: ignore[no-untyped-def]
    """The kernel, which is never compiled."""
