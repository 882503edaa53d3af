"""The backend of torch.compile: results, shapes, weights, threads, and what goes to another backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seqtune.errors import MisuseError, SeqtuneWarning
from seqtune.integrations.pytorch.hook import dynamo
from seqtune.integrations.pytorch.hook.dynamo import BackendOptions, Limits, ShapedPrograms, backend
from seqtune.integrations.pytorch.hook.optimization import optimize
from seqtune.integrations.pytorch.hook.tools import Tools
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.networks.selection.choices import Choice
from seqtune.networks.selection.selection import LayerPredictor
from seqtune.tuner.backends.llvm.cores import usable_cpus
from tests.support.installation.optional import skip_without_semaphores
from tests.support.llvm import needs_llvm
from tests.support.torch_models import norm_net, same

pytestmark = [needs_llvm, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]
Compiler = Callable[..., Any]


class Counting(nn.Module):
    """A model that counts its calls in a buffer."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls.add_(1)
        result: Tensor = self.linear(x) * self.calls
        return result


def mlp() -> nn.Module:
    """Two linear layers."""
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).eval()


@pytest.fixture
def options(checkpoint: Path) -> dict[str, Any]:
    """Options that measure nothing."""
    return {"verify": False, "checkpoint": str(checkpoint), "fallback": "eager"}


@pytest.fixture
def compiled(options: dict[str, Any], noting: Callable[..., Any]) -> Iterator[Compiler]:
    """`torch.compile` with the backend, without gradients."""
    torch._dynamo.reset()
    with torch.no_grad():
        yield partial(torch.compile, backend=noting(options))
    torch._dynamo.reset()


def programs(graphs: list[ShapedPrograms]) -> int:
    """The number of programs that are kept."""
    return sum(len(graph.programs) for graph in graphs)


@pytest.mark.skipif("seqtune" not in entry_points(group="torch_dynamo_backends").names,
                    reason="the installed metadata are older than the entry point")
def test_pytorch_finds_the_backend_by_its_name(options: dict[str, Any]) -> None:
    model = mlp()
    with torch.no_grad():
        assert same(torch.compile(model, backend="seqtune", options=options), model, torch.randn(5, 8))


def test_every_shape_gets_a_program_and_pytorch_s_results_and_strides(
        compiled: Compiler, graphs: list[ShapedPrograms]) -> None:
    model = norm_net()[:8]  # type: ignore[index]
    fast = compiled(model)
    for batch in (1, 2, 3, 2, 1):
        x = torch.randn(batch, 3, 21, 18)
        assert same(fast, model, x)
        assert fast(x).stride() == model(x).stride()
    assert programs(graphs) == 3
    wide = torch.randn(2, 3, 21, 18).contiguous(memory_format=torch.channels_last)
    assert same(fast, model, wide)
    assert fast(wide).stride() == model(wide).stride()


def test_the_program_that_was_not_used_for_the_longest_time_goes(
        compiled: Compiler, options: dict[str, Any], noting: Callable[..., Any],
        graphs: list[ShapedPrograms]) -> None:
    model = mlp()
    fast = compiled(model, dynamic=True, backend=noting(options, limits=Limits(programs=2)))
    for batch in (2, 3, 2, 4):
        assert same(fast, model, torch.randn(batch, 8))
    (graph,) = graphs
    assert [tuple(key[-1][0]) for key in graph.programs] == [(2, 8), (4, 8)]


def test_changed_replaced_and_loaded_weights_are_followed(compiled: Compiler) -> None:
    model, x = mlp(), torch.randn(5, 8)
    fast = compiled(model)
    first: nn.Linear = model[0]  # type: ignore[index]
    assert same(fast, model, x)
    first.weight.mul_(2)
    assert same(fast, model, x)
    for _ in range(2):  # the memory of the old parameter may be that of the next one
        first.weight = nn.Parameter(torch.randn(16, 8))
        assert same(fast, model, x)
    for assign in (False, True):
        model.load_state_dict({name: torch.randn_like(value) for name, value in model.state_dict().items()},
                              assign=assign)
        assert same(fast, model, x)


def test_running_statistics_are_followed_although_pytorch_does_not_count_their_changes(compiled: Compiler) -> None:
    model, x = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16)).eval(), torch.randn(5, 8)
    fast = compiled(model)
    for _ in range(2):
        assert same(fast, model, x)
        count = model[1].running_mean._version
        for name in ("0.weight", "0.bias", "1.running_var"):
            model.state_dict()[name][0] = 0.0  # the statistics of the first channel stay
        assert same(fast, model, x)
        model.train()(3 * x)
        assert model.eval()[1].running_mean._version == count
    assert same(fast, model, x)


def test_choices_outlive_the_weights(compiled: Compiler, options: dict[str, Any], noting: Callable[..., Any]) -> None:
    predicted: list[Problem] = []

    class Noting(LayerPredictor):
        __slots__ = ()

        def predict(self, problems: Sequence[Problem], device: Device) -> list[Choice]:
            predicted.extend(problems)
            return super().predict(problems, device)

    model, x = mlp(), torch.randn(5, 8)
    fast = compiled(model, backend=noting(options, tools=Tools(Noting)))
    assert same(fast, model, x)
    count = len(predicted)
    model[2].bias.add_(1)  # type: ignore[index]
    assert same(fast, model, x)
    assert len(predicted) == count > 0


def test_another_number_of_threads_gets_programs_of_its_own(compiled: Compiler, graphs: list[ShapedPrograms]) -> None:
    model, x = mlp(), torch.randn(5, 8)
    fast = compiled(model)
    many = len(usable_cpus()) + 3  # more than cores: a thread a core computes
    for count in (1, 2, many, 1):
        torch.set_num_threads(count)
        assert same(fast, model, x)
    assert {key[0] for graph in graphs for key in graph.programs} == {1, 2, many}


def test_training_goes_to_the_other_backend(options: dict[str, Any], noting: Callable[..., Any],
                                            graphs: list[ShapedPrograms]) -> None:
    torch._dynamo.reset()
    model, x = mlp(), torch.randn(5, 8)
    fast = torch.compile(model, backend=noting(options))
    fast(x).sum().backward()
    gradient = model[0].weight.grad  # type: ignore[index]
    assert isinstance(gradient, Tensor)
    assert gradient.abs().max() > 0
    assert not graphs
    with torch.no_grad():
        assert same(fast, model, x)
    assert graphs


def test_a_model_with_state_goes_to_the_other_backend_and_keeps_it(compiled: Compiler) -> None:
    model, x = Counting().eval(), torch.randn(5, 8)
    fast = compiled(model)
    with pytest.warns(SeqtuneWarning, match="it changes its buffer") as caught:
        results = [fast(x) for _ in range(3)]
    assert len([one for one in caught if issubclass(one.category, SeqtuneWarning)]) == 1
    assert torch.equal(model.calls, torch.tensor(3.0))
    assert torch.allclose(results[2], 3 * model.linear(x), atol=1e-5)


def test_four_threads_may_call_at_once(compiled: Compiler) -> None:
    model = norm_net()
    fast = compiled(model)
    inputs = [torch.randn(1, 3, 20, 20) for _ in range(4)]
    expected = [model(x) for x in inputs]
    fast(inputs[0])

    def many(index: int) -> bool:
        with torch.no_grad():
            return all(torch.allclose(fast(inputs[index]), expected[index], atol=1e-5) for _ in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(many, range(4))) == [True] * 4


def test_whole_numbers_may_be_operands(compiled: Compiler) -> None:
    class Embedded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.linear = nn.Embedding(9, 12), nn.Linear(12, 7)

        def forward(self, indices: Tensor, mask: Tensor, factor: int) -> Tensor:
            result: Tensor = self.linear(self.table(indices)) * mask.unsqueeze(-1) * factor
            return result

    model, mask = Embedded().eval(), torch.tensor([[1, 0, 1]])
    fast = compiled(model)
    for factor in (2, 3):
        assert same(fast, model, torch.randint(9, (2, 3)), mask, factor)  # type: ignore[arg-type]
    with pytest.raises(IndexError, match="out of range"):
        fast(torch.tensor([[0, 9, 1]]), mask, 2)


@pytest.mark.parametrize(("wrong", "says"), [
    ({"fallbak": "eager"}, "no option 'fallbak'; its options are verify, seconds, checkpoint, journal, fallback"),
    ({"fallback": "none"}, "fallback='none' is not one of inductor, eager"),
    ({"seconds": 0}, "seconds=0; it must be a positive number"), ({"budget": -1}, "budget=-1; it must be a positive"),
    ({"verify": "no"}, "verify='no'; it must be True"),
    ({"checkpoint": 5}, "checkpoint=5; it must be a path"), ({"journal": 5}, "journal=5; it must be a path"),
    (1, "options=1; they must be a dictionary"),
])
def test_a_wrong_option_is_refused_in_one_line(wrong: Any, says: str) -> None:
    with pytest.raises(MisuseError) as caught:
        backend(torch.fx.symbolic_trace(nn.Linear(3, 3)), [torch.randn(2, 3)], options=wrong)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def failing(*_: Any, **__: Any) -> Any:
    """A part that fails inside."""
    raise ZeroDivisionError("nothing to divide")


def test_whatever_fails_while_a_graph_is_compiled_goes_to_the_fallback_with_the_reason(
        compiled: Compiler, options: dict[str, Any], noting: Callable[..., Any]) -> None:
    model, x = mlp(), torch.randn(5, 8)
    fast = compiled(model, backend=noting(options, tools=Tools(predictor=failing)))
    with pytest.warns(SeqtuneWarning, match="compiled: ZeroDivisionError: nothing to divide; eager") as caught:
        assert all(same(fast, model, x) for _ in range(2))
    assert len([warning for warning in caught if warning.category is SeqtuneWarning]) == 1


def test_what_fails_at_a_call_goes_to_the_fallback_unless_an_operand_was_written(
        compiled: Compiler, graphs: list[ShapedPrograms]) -> None:
    def changing(x: Tensor) -> Tensor:
        result: Tensor = model(x)
        x.add_(1)
        return result

    model, x = mlp(), torch.randn(5, 8)
    fast = compiled(changing)
    fast(x)
    (graph,) = graphs
    ((key, program),) = graph.programs.items()

    def written(x: Tensor) -> Any:
        x.add_(1)
        return failing()

    for part, before in ((written, x.clone()), (failing, x.clone())):
        graph.programs[key] = replace(program, graph=part)
        if part is written:
            with pytest.raises(ZeroDivisionError):
                fast(before)
        else:
            with pytest.warns(SeqtuneWarning, match="its program failed: ZeroDivisionError: nothing to divide; eager"):
                assert torch.allclose(fast(before), model(x))
            assert torch.equal(before, x + 1)


def test_bf16_weights_on_a_cpu_that_does_not_multiply_them_go_to_the_fallback(
        compiled: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4)).bfloat16().eval()
    monkeypatch.setattr(dynamo, "device_of_pytorch", lambda: Device("llvm:avx2:1", "llvm", "here", "avx2", threads=1))
    fast, x = compiled(model), torch.randn(5, 8).bfloat16()
    with pytest.warns(SeqtuneWarning, match="does not multiply bf16 numbers; .* eager computes this graph"):
        assert torch.equal(fast(x), model(x))


def test_a_forked_process_computes_without_the_threads_of_its_parent(compiled: Compiler) -> None:
    """A worker of a DataLoader is such a process; it gives PyTorch one thread."""
    skip_without_semaphores()
    model, x = mlp(), torch.randn(5, 8)
    torch.set_num_threads(2)
    fast = optimize(model, x, verify=False)
    expected = fast(x)
    loader: Any = torch.utils.data.DataLoader([0],  # type: ignore[arg-type]
                                         num_workers=1, timeout=60, multiprocessing_context="fork",
                                         collate_fn=lambda _: fast(x))
    torch.testing.assert_close(list(loader), [expected])


@pytest.mark.parametrize("option", [{"journal": "."}, {"journal": ""}, {"checkpoint": b"x"}, {"seconds": True},
                                    {"verify": "no"}, {"compare": []}, {"fallback": []}])
def test_an_option_that_makes_no_sense_is_no_reason_to_fall_back(option: dict[str, Any]) -> None:
    name = next(iter(option))
    with pytest.raises(MisuseError, match=f"^(the )?{name}="):
        BackendOptions.of(option)


def test_a_mode_is_refused_in_one_line() -> None:
    with pytest.raises(MisuseError, match=r"^the backend seqtune has no mode 'max-autotune'; give options instead$"):
        backend(torch.fx.symbolic_trace(nn.Linear(3, 3)), [torch.randn(2, 3)], mode="max-autotune")
