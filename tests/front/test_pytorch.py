"""Models with tuned kernels in them: the same results, nothing that cannot be done done silently."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seqtune.api import predict
from seqtune.errors import FormatError, MisuseError, SeqtuneError
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.from_torch import from_conv2d, from_linear
from seqtune.kernels.registry import kernel, table
from seqtune.predictor.sequence.vocabulary import Vocabulary
from seqtune.predictor.times.checkpoint import Checkpoint
from seqtune.predictor.times.translator import Translator
from seqtune.pytorch import optimized as pytorch
from seqtune.pytorch.graph import Layer
from seqtune.pytorch.modules import KeptConvolution, KeptProduct
from seqtune.pytorch.optimized import Compiled, Optimized, optimize
from seqtune.pytorch.saved_choices import MOST_BYTES, Choice
from seqtune.tuner.backends.discovery import find
from seqtune.tuner.backends.llvm import backend as llvm

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason=str(llvm.unavailable()))


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """PyTorch's own operations on one: on a busy machine two wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translator that knows nothing: what it says is valid all the same."""
    vocabulary = Vocabulary.build([kernel(name) for name in table("llvm")], [find("llvm:0")])
    torch.manual_seed(0)
    model = Translator.of(vocabulary, width=16, layers=1, heads=2, hidden=16)
    return Checkpoint(model, vocabulary).save(tmp_path_factory.mktemp("checkpoint") / "tiny")


@pytest.fixture
def quick(checkpoint: Path) -> Callable[..., Optimized]:
    """`optimize` without measuring, on one thread."""
    def made(model: nn.Module, example: Any, device: str = "llvm:1", **options: Any) -> Optimized:
        return optimize(model, example, device=device, verify=False, checkpoint=checkpoint, **options)

    return made


def random_norms(model: nn.Module) -> nn.Module:
    """The model for evaluation, its batch normalisations as if trained."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor in (module.weight, module.running_var):
                assert tensor is not None
                nn.init.uniform_(tensor, 0.5, 2.0)
            for tensor in (module.bias, module.running_mean):
                assert tensor is not None
                nn.init.normal_(tensor)
    return model.eval()


def norm_net() -> nn.Module:
    return random_norms(nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        nn.MaxPool2d(3, 2, 1), nn.Conv2d(16, 20, 3, padding="same"), nn.BatchNorm2d(20), nn.ReLU(inplace=True),
        nn.Conv2d(20, 8, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5), nn.ReLU()))


class Residual(nn.Module):
    """A block whose parts are each read in another way."""

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1, groups=4)
        self.norm = nn.BatchNorm2d(16)
        self.in_place = in_place

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.first(x)
        z = self.norm(y)  # y is read again below: nothing may be folded into the first
        z = self.second(z).relu()
        if self.in_place:
            z += y
            return z.relu_(), y
        return torch.relu(z + y), y


class Tied(nn.Module):
    """One convolution, used twice, on two shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 3)
        self.other = nn.Conv2d(8, 8, 3)
        self.other.weight = self.conv.weight

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.other(self.conv(self.conv(x)))
        return found


class Branching(nn.Module):
    """Its own code depends on numbers, which no graph can; its parts' does not."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm_net = nn.Conv2d(3, 3, 1), norm_net()

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        found: Tensor = self.norm_net(x if x.sum().item() < 1e30 else -x)
        return found


def same(optimized: Any, model: nn.Module, *inputs: Tensor) -> bool:
    """Whether results agree, in shape and number."""
    found, wanted = optimized(*inputs), model(*inputs)
    pairs = [(found, wanted)] if isinstance(found, Tensor) else list(zip(found, wanted, strict=True))
    return all(one.shape == other.shape and float((one - other).abs().max()) < 1e-4 * float(other.abs().max())
               for one, other in pairs)


@pytest.mark.parametrize(("device", "batch"), [("llvm:1", 1), ("llvm:0", 3)])
def test_a_network_with_norms_pools_and_a_classifier_computes_the_same(
        quick: Callable[..., Optimized], device: str, batch: int) -> None:
    model, x = norm_net(), torch.randn(batch, 3, 33, 30)
    fast = quick(model, x, device)
    assert [choice.problem["activation"] for choice in fast.choices] == ["relu", "relu", "none", "relu"]
    assert [choice.problem["bias"] for choice in fast.choices] == ["yes"] * 4
    for _ in range(3):
        y = torch.randn(batch, 3, 33, 30)
        assert same(fast, model, y)
        assert same(fast, model, y.contiguous(memory_format=torch.channels_last))
    assert fast.error < 1e-4


def test_layers_in_different_memory_formats_follow_each_other(quick: Callable[..., Optimized]) -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.linear, self.other = nn.Conv2d(3, 4, 3), nn.Linear(6, 6), nn.Conv2d(4, 4, 3, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            x = self.conv(x)
            y = self.linear(x)
            found: Tensor = self.linear(self.other(y) + y) + x
            return found

    model, x = Mixed().eval(), torch.randn(2, 3, 8, 8)
    fast = quick(model, x)
    assert len(fast.choices) == 4
    assert same(fast, model, x)


def test_sums_of_what_is_no_image_stay_pytorch_s(quick: Callable[..., Optimized]) -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            found: Tensor = (self.linear(x) + x).softmax(-1)
            return found

    model, x = Attention().eval(), torch.randn(1, 4, 6, 8)
    fast = quick(model, x)
    assert isinstance(fast.model, Compiled)
    assert "aten.add.Tensor" in {str(node.target) for node in fast.model.graph.graph.nodes}
    assert same(fast, model, x)


def test_what_was_replaced_is_gone_and_the_model_given_is_untouched(quick: Callable[..., Optimized]) -> None:
    model = norm_net()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    fast = quick(model, torch.randn(1, 3, 20, 20))
    compiled = fast.model
    assert isinstance(compiled, Compiled)
    left = {str(node.target) for node in compiled.graph.graph.nodes if node.op == "call_function"}
    assert not left & {"aten.conv2d.default", "aten.batch_norm.default", "aten.relu.default", "aten.relu_.default",
                       "aten.max_pool2d.default", "aten.linear.default"}
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert type(model[0]) is nn.Conv2d  # type: ignore[index]


@pytest.mark.parametrize("in_place", [False, True])
def test_a_result_that_is_read_twice_is_not_lost(quick: Callable[..., Optimized], in_place: bool) -> None:
    model, x = random_norms(Residual(in_place)), torch.randn(1, 16, 9, 10)
    fast = quick(model, x)
    assert [choice.problem["activation"] for choice in fast.choices] == ["none", "relu"]
    assert same(fast, model, x)
    assert same(fast, model, torch.randn(1, 16, 9, 10))


@pytest.mark.parametrize(("layer", "shape"), [
    (nn.Conv2d(12, 18, 3, stride=(2, 1), padding=(2, 1), dilation=(1, 2), groups=3), (2, 12, 11, 13)),
    (nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False), (1, 8, 9, 9)),
    (nn.Conv2d(1, 5, (1, 4), padding="valid"), (1, 1, 3, 9)),
    (nn.Linear(24, 40, bias=False), (2, 5, 24)),
    (nn.Linear(24, 40), (24,)),
])
def test_odd_layers_compute_the_same(quick: Callable[..., Optimized], layer: nn.Module, shape: tuple[int, ...]) -> None:
    fast = quick(layer.eval(), torch.randn(shape))
    assert len(fast.choices) == 1
    assert same(fast, layer, torch.randn(shape))


@pytest.mark.parametrize("layer", [
    nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect"), nn.Conv2d(4, 4, 2, padding="same"),
    nn.ConvTranspose2d(4, 4, 3)])
def test_what_no_kernel_computes_stays_pytorch_s(quick: Callable[..., Optimized], layer: nn.Module) -> None:
    model = nn.Sequential(layer, nn.Conv2d(4, 4, 1)).eval()
    x = torch.randn(1, 4, 8, 8)
    fast = quick(model, x)
    assert same(fast, model, x)


def test_tied_weights_may_meet_several_shapes(quick: Callable[..., Optimized]) -> None:
    model, x = Tied().eval(), torch.randn(1, 8, 14, 14)
    fast = quick(model, x)
    assert [choice.problem["h"] for choice in fast.choices] == [14, 12, 10]
    assert same(fast, model, x)


def test_other_shapes_and_keywords_go_through_the_original(quick: Callable[..., Optimized]) -> None:
    model = norm_net()
    fast = quick(model, torch.randn(1, 3, 20, 20))
    for shape in ((2, 3, 20, 20), (1, 3, 25, 31)):
        assert same(fast, model, torch.randn(shape))
    x = torch.randn(1, 3, 20, 20)
    assert torch.equal(fast(input=x), model(x))


def test_where_a_model_cannot_be_exported_its_parts_are(quick: Callable[..., Optimized]) -> None:
    model = Branching().eval()
    x = torch.randn(1, 3, 20, 20)
    steps: list[str] = []
    fast = quick(model, x, progress=steps.append)
    assert "Branching cannot be exported" in steps[0]
    assert len(fast.choices) == 5
    assert isinstance(fast.model, Branching)
    assert isinstance(fast.model.norm_net, Compiled)
    assert same(fast, model, x)


class Viewing(nn.Module):
    """Takes for granted that tensors are contiguous."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.classes = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 1), nn.Linear(4 * 36, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.first(x)
        return x, self.classes(self.second(x.view(x.shape[0], 8, -1).view(x.shape)).view(x.shape[0], -1))


def test_tensors_may_be_viewed_as_in_the_original(quick: Callable[..., Optimized]) -> None:
    model, x = Viewing().eval(), torch.randn(2, 3, 8, 8)
    fast = quick(model, x)
    assert len(fast.choices) == 3
    assert same(fast, model, x)
    assert [one.stride() for one in fast(x)] == [one.stride() for one in model(x)]


def test_two_inputs_and_a_dictionary_of_results(quick: Callable[..., Optimized]) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(4, 4, 3)

        def forward(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
            return {"sum": self.conv(x) + self.conv(y), "x": x}

    model, x, y = Two().eval(), torch.randn(1, 4, 6, 6), torch.randn(1, 4, 6, 6)
    fast = quick(model, (x, y))
    found, wanted = fast(x, y), model(x, y)
    assert list(found) == ["sum", "x"]
    assert torch.allclose(found["sum"], wanted["sum"], atol=1e-4)
    assert torch.equal(found["x"], x)


def test_verified_layers_are_measured_beside_pytorch_s(checkpoint: Path, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 36, 10)).eval()
    x = torch.randn(1, 16, 8, 8)
    fast = optimize(model, x, device="llvm:1", seconds=0.1, checkpoint=checkpoint, journal=tmp_path / "j.sqlite")
    assert same(fast, model, x)
    for choice in fast.choices:
        assert choice.seconds is not None
        assert choice.pytorch_seconds is not None
        assert (choice.configuration is not None) == (choice.seconds < choice.pytorch_seconds)


def test_a_layer_that_does_not_win_is_kept(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqtune.pytorch.selection._beside", lambda runs: {
        name: {"ours": 2.0, "theirs": 1.0, "plain": 2.0, "packed": 1.0}[name] for name in runs})
    monkeypatch.setattr("seqtune.pytorch.selection.predict", lambda problem, device, **options: predict(
        problem, device, checkpoint=checkpoint))
    model, x = norm_net(), torch.randn(1, 3, 20, 20)
    fast = optimize(model, x, device="llvm:1")
    assert all(choice.configuration is None for choice in fast.choices)
    assert same(fast, model, x)
    fast.save(tmp_path / "kept.json")
    assert same(optimize(model, x, device="llvm:1", saved=tmp_path / "kept.json"), model, x)


@pytest.mark.skipif(not torch._C._has_mkldnn, reason="this PyTorch has no oneDNN")
@pytest.mark.parametrize("packed", [False, True])
def test_what_is_kept_computes_the_same_packed_or_not(packed: bool) -> None:
    conv, linear = nn.Conv2d(6, 8, (3, 2), (2, 1), (1, 0), (1, 2), 2), nn.Linear(6, 5)
    x, row = torch.randn(2, 6, 9, 8), torch.randn(2, 3, 6)
    problem = from_conv2d(conv, x.shape, "NHWC")
    relu = Problem.make("conv2d", **{**dict(problem.features), "activation": "relu"})
    with torch.no_grad():
        for asked, wanted in ((problem, conv(x)), (relu, conv(x).relu())):
            kept = KeptConvolution(asked, conv.weight.detach(), conv.bias, packed)
            assert torch.allclose(kept(x), wanted, atol=1e-5)
        product = KeptProduct(from_linear(linear, row.shape), linear.weight.detach(), linear.bias, packed)
        assert torch.allclose(product(row), linear(row), atol=1e-5)


def test_a_choice_is_saved_and_loaded_without_predicting(
        quick: Callable[..., Optimized], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = norm_net(), torch.randn(1, 3, 20, 20)
    fast = quick(model, x)
    fast.save(tmp_path / "choice.json")
    monkeypatch.setattr("seqtune.pytorch.selection.predict", lambda *_, **__: pytest.fail("predicted"))
    again = optimize(model, x, device="llvm:1", saved=tmp_path / "choice.json")
    assert [one.configuration for one in again.choices] == [one.configuration for one in fast.choices]
    assert torch.equal(again(x), fast(x))


def test_numbers_of_a_saved_choice_become_the_space_s_own(quick: Callable[..., Optimized], tmp_path: Path) -> None:
    model, x = norm_net(), torch.randn(1, 3, 20, 20)
    fast = quick(model, x)
    fast.save(tmp_path / "choice.json")
    found = json.loads((tmp_path / "choice.json").read_text())
    for layer in found["layers"]:
        layer["configuration"] = {name: float(one) if isinstance(one, int) else one
                                  for name, one in layer["configuration"].items()}
    (tmp_path / "choice.json").write_text(json.dumps(found))
    again = optimize(model, x, device="llvm:1", saved=tmp_path / "choice.json")
    assert [repr(one.configuration) for one in again.choices] == [repr(one.configuration) for one in fast.choices]


def test_a_choice_that_cannot_be_written_is_one_line(quick: Callable[..., Optimized], tmp_path: Path) -> None:
    fast = quick(nn.Conv2d(3, 3, 1).eval(), torch.randn(1, 3, 4, 4))
    with pytest.raises(SeqtuneError, match="cannot write"):
        fast.save(tmp_path / "none" / "choice.json")


def test_what_was_measured_on_a_busy_machine_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def choose(layers: Sequence[Layer], *given: object, **named: object) -> list[Choice]:
        return [Choice(layer.problem, None, seconds=0.1, pytorch_seconds=0.01) for layer in layers]

    monkeypatch.setattr(pytorch, "choose", choose)
    with pytest.warns(UserWarning, match="1 of 1 layers took over 5 times as long"):
        optimize(nn.Conv2d(3, 3, 1).eval(), torch.randn(1, 3, 4, 4), device="llvm:1")


@pytest.mark.parametrize(("change", "says"), [
    (lambda found: found.update(device="llvm:neon:64 m9"), "was saved on llvm:neon:64 m9"),
    (lambda found: found["layers"].pop(), "saved for another model"),
    (lambda found: found["layers"].append(found["layers"][0]), "saved for another model"),
    (lambda found: found["layers"][0].update(version=999), "version 999 of llvm.direct"),
    (lambda found: found["layers"][0].update(kernel="llvm.none"), "no kernel 'llvm.none'"),
    (lambda found: found["layers"][0]["configuration"].update(vector=999), "vector=999"),
    (lambda found: found["layers"][0].update(configuration=None), "no saved choice"),
    (lambda found: found["layers"][0].update(kernel=None), "no saved choice"),
    (lambda found: found["layers"][0].update(kernel="llvm.gemm"), "solves gemm, not conv2d"),
    (lambda found: found["layers"][0].update(kernel="opencl.direct"), "runs on opencl, not on llvm"),
    (lambda found: found["layers"][0].update(kernel="llvm.depthwise", version=1), "a group of its own"),
    (lambda found: found["layers"][0]["problem"].update(layout="two\nlines"), "layout=two lines"),
    (lambda found: found.update(device="two\nlines"), "saved on two lines"),
    (lambda found: found.update(layers={"problem": 1}), "no saved choice"),
    (lambda found: found.update(seqtune=99), "schema 99"),
    (lambda found: found.pop("layers"), "no saved choice"),
])
def test_a_choice_that_does_not_fit_is_refused_in_one_line(
        quick: Callable[..., Optimized], tmp_path: Path, change: Callable[[Any], object], says: str) -> None:
    model, x = norm_net(), torch.randn(1, 3, 20, 20)
    path = tmp_path / "choice.json"
    quick(model, x).save(path)
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))
    with pytest.raises(MisuseError) as caught:
        optimize(model, x, device="llvm:1", saved=path)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_choice_that_is_not_there_or_damaged_is_refused(tmp_path: Path) -> None:
    model, x = norm_net(), torch.randn(1, 3, 20, 20)
    with pytest.raises(FormatError, match="cannot read"):
        optimize(model, x, device="llvm:1", saved=tmp_path / "none.json")
    path = tmp_path / "damaged.json"
    for damage in (b"[1, {", b"\xff\xfe\x00", b"[" * 100_000, b"{}"):
        path.write_bytes(damage)
        with pytest.raises(FormatError, match="no saved choice"):
            optimize(model, x, device="llvm:1", saved=path)
    path.write_bytes(b" " * (MOST_BYTES + 1))
    with pytest.raises(FormatError, match="more than 4 MB"):
        optimize(model, x, device="llvm:1", saved=path)


@pytest.mark.parametrize(("model", "example", "says"), [
    (nn.Conv2d(3, 3, 1), torch.randn(1, 3, 4, 4), "training mode"),
    (nn.Conv2d(3, 3, 1).half().eval(), torch.randn(1, 3, 4, 4), "torch.float16"),
    (nn.Conv2d(3, 3, 1).double().eval(), torch.randn(1, 3, 4, 4), "torch.float64"),
    (nn.Conv2d(3, 3, 1).eval(), torch.randn(1, 3, 4, 4).double(), "example input is of torch.float64"),
    (nn.Conv2d(3, 3, 1, device="meta").eval(), torch.randn(1, 3, 4, 4), "on meta"),
    (nn.ReLU().eval(), torch.randn(3), "no layer of this ReLU"),
    (nn.Conv2d(3, 3, 1).eval(), "an image", "must be a tensor"),
    (nn.Conv2d(3, 3, 1).eval(), (), "must be a tensor"),
    (nn.Conv2d(3, 3, 1).eval(), 5, "must be a tensor"),
    (torch.relu, torch.randn(3), "no torch.nn.Module"),
])
def test_what_cannot_be_optimised_is_refused_in_one_line(model: Any, example: Any, says: str) -> None:
    with pytest.raises(MisuseError) as caught:
        optimize(model, example)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_device_that_has_memory_of_its_own_is_refused() -> None:
    from seqtune.kernels.device import Device

    with pytest.raises(MisuseError, match="llvm device"):
        optimize(norm_net(), torch.randn(1, 3, 20, 20), device=Device("opencl:0", "opencl", "x", "y"))


def test_what_would_part_a_model_from_its_kernels_is_refused(quick: Callable[..., Optimized]) -> None:
    fast = quick(nn.Conv2d(3, 3, 1).eval(), torch.randn(1, 3, 4, 4))
    for deed in (fast.train, fast.double, lambda: copy.deepcopy(fast), lambda: pickle.dumps(fast),
                 lambda: optimize(fast, torch.randn(1, 3, 4, 4))):
        with pytest.raises(MisuseError):
            deed()
    assert not fast.eval().training


def test_a_wrong_result_is_never_returned(quick: Callable[..., Optimized], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqtune.pytorch.modules.Step.forward", lambda self, x: torch.zeros(self.shape))
    with pytest.raises(SeqtuneError, match="results differ by"):
        quick(nn.Conv2d(3, 3, 1).eval(), torch.randn(1, 3, 4, 4))
