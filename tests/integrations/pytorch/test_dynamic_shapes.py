"""Many shapes of one model under torch.compile: programs, memory and compilations stay bounded, results right."""

from __future__ import annotations

import gc
import random
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from seqtune.errors import SeqtuneWarning
from seqtune.integrations.pytorch.hook.dynamo import Limits, ShapedPrograms
from seqtune.integrations.pytorch.hook.tools import Tools
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.networks.module import NetworkModule
from seqtune.networks.program.bound_kernels import KernelBinder
from seqtune.networks.program.device_threads import binder_of, device_of_pytorch
from seqtune.networks.selection.selection import LayerPredictor
from seqtune.predictor.answering import Answering, answering
from seqtune.tuner.backends.llvm.compiler import CompiledModule, Compiler
from tests.networks.test_networks import Block
from tests.support.llvm import needs_llvm
from tests.support.torch_models import same

pytestmark = [needs_llvm, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]
Graphs = list[ShapedPrograms]


@pytest.fixture
def compiled(noting: Callable[..., Any], checkpoint: Path) -> Iterator[Callable[..., Any]]:
    """`torch.compile` of a model whose sizes vary, without measuring."""
    def made(model: nn.Module, parts: Mapping[str, Any] | None = None, **options: Any) -> Any:
        given = {"verify": False, "checkpoint": str(checkpoint), "fallback": "eager", **options}
        return torch.compile(model, backend=noting(given, **(parts or {})), dynamic=True)

    torch._dynamo.reset()
    with torch.no_grad():
        yield made
    torch._dynamo.reset()


class CountingCompiler(Compiler):
    """A compiler that counts the modules that it compiles."""

    count = 0

    def build(self, text: str, options: tuple[str, ...] = (), kept: bool = True) -> tuple[CompiledModule, bool]:
        """Build, and count where this call compiled."""
        module, is_new = super().build(text, options, kept)
        self.count += is_new
        return module, is_new


def mlp() -> nn.Module:
    """Two linear layers."""
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).eval()


def modules_of(graph: ShapedPrograms) -> list[NetworkModule]:
    """The programs of a graph."""
    return [module for program in graph.programs.values() for module in program.graph.modules()
            if isinstance(module, NetworkModule)]


def test_programs_of_many_shapes_share_their_memory(compiled: Callable[..., Any], graphs: Graphs) -> None:
    model = mlp()
    fast = compiled(model)
    for batch in (42, 41, 40):
        assert same(fast, model, torch.randn(batch, 8))
    (graph,) = graphs
    programs = modules_of(graph)
    assert len(programs) == 3
    assert len({id(program.program.memory[0]) for program in programs}) == 1


def test_a_program_that_is_not_kept_leaves_nothing(
        compiled: Callable[..., Any], graphs: Graphs) -> None:
    asked: list[Problem] = []

    def asking(problem: Problem, device: Device, checkpoint: Any) -> Answering:
        asked.append(problem)
        return answering(problem, device, checkpoint)

    device = device_of_pytorch()
    compiler = CountingCompiler(device.instruction_set)
    binder = KernelBinder(device, compiler, binder_of(device).threads)
    model = mlp()
    fast = compiled(model, {"limits": Limits(programs=2), "tools": Tools(
        partial(LayerPredictor, answering=asking), binder=lambda device: binder)})
    assert same(fast, model, torch.randn(2, 8))
    (graph,) = graphs
    first = weakref.ref(modules_of(graph)[0])
    for batch in (3, 4):
        assert same(fast, model, torch.randn(batch, 8))
    gc.collect()
    assert first() is None
    before = (len(asked), compiler.count)
    assert min(before) > 0
    assert same(fast, model, torch.randn(2, 8))
    assert (len(asked), compiler.count) == before


def test_shapes_without_a_program_are_tried_a_few_times_with_one_warning(
        compiled: Callable[..., Any], graphs: Graphs) -> None:
    fast = compiled(nn.Softmax(1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for batch in range(2, 15):
            x = torch.randn(batch, 8)
            assert torch.equal(fast(x), x.softmax(1))
    (graph,) = graphs
    assert len(graph.refused) == Limits().refused
    assert sum(issubclass(one.category, SeqtuneWarning) for one in caught) == 1


def test_random_shapes_from_several_threads_give_pytorch_s_results(
        compiled: Callable[..., Any], graphs: Graphs) -> None:
    model = Block().eval()
    fast = compiled(model, {"limits": Limits(programs=2)})
    inputs = [torch.randn(2, length, 24) for length in (5, 6, 7)]
    expected = [model(x) for x in inputs]

    def right(number: int) -> bool:
        with torch.no_grad():
            return bool(torch.allclose(fast(inputs[number]), expected[number], atol=1e-5))

    assert right(0)
    numbers = random.Random(0).choices((0, 1, 1, 1, 2), k=12)
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(right, numbers))
    (graph,) = graphs
    assert not graph.refused
    assert len(graph.programs) == 2
