"""Many shapes of one model under torch.compile: programs, memory and compilations stay bounded, results right."""

from __future__ import annotations

import gc
import random
import warnings
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from seqtune.errors import SeqtuneWarning
from seqtune.hooks.pytorch import dynamo
from seqtune.hooks.pytorch.dynamo import ShapedPrograms, backend
from seqtune.networks.compilation import compile_graph
from seqtune.networks.module import NetworkModule
from seqtune.networks.selection.layer_predictor import LayerPredictor
from seqtune.networks.verification.verifier import NetworkVerifier
from seqtune.tuner.backends.llvm import backend as llvm
from seqtune.tuner.backends.llvm.compiler import Compiler
from tests.networks.test_networks import Block
from tests.support.torch_models import same

pytestmark = [pytest.mark.skipif(llvm.unavailable() is not None, reason=str(llvm.unavailable())),
              pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]
Graphs = list[ShapedPrograms]


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Graphs]:
    """The graphs that Dynamo hands over."""
    found: Graphs = []

    def collected(*arguments: Any) -> ShapedPrograms:
        found.append(ShapedPrograms(*arguments))
        return found[-1]

    monkeypatch.setattr(dynamo, "ShapedPrograms", collected)
    torch._dynamo.reset()
    with torch.no_grad():
        yield found
    torch._dynamo.reset()


@pytest.fixture
def compiled(graphs: Graphs, checkpoint: Path) -> Callable[..., Any]:
    """`torch.compile` of a model whose sizes vary, without measuring."""
    def made(model: nn.Module, **options: Any) -> Any:
        given = {"verify": False, "checkpoint": str(checkpoint), "fallback": "eager", **options}
        return torch.compile(model, backend=partial(backend, options=given), dynamic=True)

    return made


def mlp() -> nn.Module:
    """Two linear layers."""
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).eval()


def modules_of(graph: ShapedPrograms) -> list[NetworkModule]:
    """The programs of a graph."""
    return [module for program in graph._programs.values() for module in program.graph.modules()
            if isinstance(module, NetworkModule)]


def test_programs_of_many_shapes_share_their_memory(compiled: Callable[..., Any], graphs: Graphs) -> None:
    model = mlp()
    fast = compiled(model)
    for batch in (42, 41, 40):
        assert same(fast, model, torch.randn(batch, 8))
    (graph,) = graphs
    programs = modules_of(graph)
    assert len(programs) == 3
    assert len({id(program._program._memory[0]) for program in programs}) == 1


def test_a_program_that_is_not_kept_leaves_nothing(
        compiled: Callable[..., Any], graphs: Graphs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamo, "MOST_SHAPES", 2)
    model = mlp()
    fast = compiled(model)
    assert same(fast, model, torch.randn(2, 8))
    (graph,) = graphs
    first = weakref.ref(modules_of(graph)[0])
    for batch in (3, 4):
        assert same(fast, model, torch.randn(batch, 8))
    gc.collect()
    assert first() is None
    compilations: list[str] = []
    build = Compiler._compile

    def counted(compiler: Compiler, text: str, libraries: list[str], kept: bool) -> Any:
        compilations.append(text)
        return build(compiler, text, libraries, kept)

    monkeypatch.setattr(Compiler, "_compile", counted)
    monkeypatch.setattr(LayerPredictor, "predict", lambda *_: pytest.fail("predicted"))
    assert same(fast, model, torch.randn(2, 8))
    assert not compilations


def test_only_the_first_shapes_are_verified(
        compiled: Callable[..., Any], graphs: Graphs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamo, "MOST_VERIFIED", 2)
    asked: list[bool] = []
    monkeypatch.setattr(NetworkVerifier, "verified", lambda verifier, compiler, found, *_: found)

    def compiling(*arguments: Any) -> Any:
        asked.append(arguments[-1] is not None)
        return compile_graph(*arguments)

    monkeypatch.setattr(dynamo, "compile_graph", compiling)
    model = mlp()
    fast = compiled(model, verify=True, compare="eager")
    for batch in (2, 3, 4, 5):
        assert same(fast, model, torch.randn(batch, 8))
    assert asked == [True, True, False, False]


def test_shapes_without_a_program_are_tried_a_few_times_with_one_warning(
        compiled: Callable[..., Any], graphs: Graphs, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []

    def refused(*arguments: Any) -> Any:
        tried.append(arguments)
        raise ValueError("no")

    monkeypatch.setattr(dynamo, "exported", refused)
    fast = compiled(nn.Softmax(1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for batch in range(2, 15):
            x = torch.randn(batch, 8)
            assert torch.equal(fast(x), x.softmax(1))
    assert len(tried) == dynamo.MOST_REFUSED
    assert sum(issubclass(one.category, SeqtuneWarning) for one in caught) == 1
    assert len(graphs) == 1


def test_random_shapes_from_several_threads_give_pytorch_s_results(
        compiled: Callable[..., Any], graphs: Graphs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamo, "MOST_SHAPES", 2)
    model = Block().eval()
    fast = compiled(model)
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
    assert not graph._refused
    assert len(graph._programs) == 2
