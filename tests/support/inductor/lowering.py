"""Inductor's lowering of one operation for a GPU that is not here, up to where it would benchmark choices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._inductor import config, select_algorithm
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime.hints import DeviceProperties
from torch._inductor.virtualized import V
from torch.fx.experimental.proxy_tensor import make_fx

H200 = SimpleNamespace(name="NVIDIA H200", gcnArchName="NVIDIA H200", major=9, minor=0, multi_processor_count=132,
                       regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048, warp_size=32,
                       shared_memory_per_block_optin=232448, total_memory=141 << 30)


@contextmanager
def pretended_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let Inductor and Triton see an H200 by its properties. Nothing can be launched."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    monkeypatch.setattr(driver, "_active", SimpleNamespace(get_current_target=lambda: GPUTarget("cuda", 90, 32)))
    for place in ("torch.cuda.get_device_properties",
                  "torch._dynamo.device_interface.CudaInterface.get_device_properties"):
        monkeypatch.setattr(place, lambda device=None: H200)
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda device=None: (9, 0))
    monkeypatch.setattr("torch._inductor.utils.is_big_gpu", lambda index=0: True)
    DeviceProperties.create.cache_clear()
    yield
    DeviceProperties.create.cache_clear()


class Benchmarked(Exception):
    """Inductor was about to benchmark these choices."""

    def __init__(self, choices: list[Any]) -> None:
        super().__init__(len(choices))
        self.choices = choices


def lowered(operation: Callable[..., Any], shapes: Sequence[tuple[torch.dtype, tuple[int, ...], tuple[int, ...]]],
            monkeypatch: pytest.MonkeyPatch, backends: str = "ATEN,TRITON") -> list[Any]:
    """The choices that Inductor would benchmark for an operation on tensors of these types, shapes and strides.

    One choice is taken without a benchmark, and is the only one returned.
    """
    taken: list[Any] = []
    cache = type(select_algorithm.get_algorithm_selector_cache())
    plain = cache.__call__

    def select(self: Any, name: str, choices: list[Any], *arguments: Any, **options: Any) -> Any:
        node, choice = plain(self, name, choices, *arguments, **options)
        taken.append(choice)
        return node, choice

    def benchmark(self: Any, choices: list[Any], *arguments: Any, **options: Any) -> Any:
        raise Benchmarked(choices)

    with ExitStack() as stack:
        stack.enter_context(pretended_gpu(monkeypatch))
        stack.enter_context(config.patch(max_autotune=True, max_autotune_gemm_backends=backends))
        monkeypatch.setattr(cache, "__call__", select)
        monkeypatch.setattr(cache, "make_precompile_fn", benchmark)  # the first step of a benchmark
        traced = make_fx(operation, tracing_mode="fake")(
            *(torch.empty_strided(size, stride, dtype=dtype) for dtype, size, stride in shapes))
        values = [node.meta["val"] for node in traced.graph.nodes if node.op == "placeholder"]
        mode = values[0].fake_mode
        with mode:
            inputs = [torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="cuda")
                      for value in values]
        graph = GraphLowering(traced)
        with V.set_graph_handler(graph), V.set_fake_mode(mode):
            try:
                graph.run(*inputs)
            except Exception as error:
                cause: Any = error
                while cause is not None and not isinstance(cause, Benchmarked):
                    cause = cause.__cause__ or cause.__context__
                if cause is None:
                    raise
                return list(cause.choices)
    return taken
