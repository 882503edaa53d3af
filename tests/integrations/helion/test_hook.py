"""seqtune.helion with Helion's own kernels, bound to CPU tensors; what is proposed is compiled for three GPUs."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from seqtune.errors import KernelError, MisuseError, SeqtuneWarning
from seqtune.hooks.asking import ANY, fitting, narrowed
from seqtune.kernels.kernel import Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.task import Task
from seqtune.predictor.answering import Answering
from tests.support.confidence import expect
from tests.support.devices import described_gpu
from tests.support.installation.optional import reason
from tests.support.paths import ROOT
from tests.support.triton.generated import compiled, load

pytest.importorskip("torch", reason="PyTorch is not installed: make develop")
helion: Any = pytest.importorskip("helion", reason=reason(["helion"]))

import torch  # noqa: E402

import seqtune.helion  # noqa: E402
from tests.support.helion import kernels  # noqa: E402

GPUS = ("a100", "h200", "mi300x")


def matrices(m: int, n: int, k: int, dtype: torch.dtype = torch.float16) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty(m, k, dtype=dtype), torch.empty(k, n, dtype=dtype)


X, Y = matrices(512, 768, 1024)
LAYER = (torch.empty(100, 256, dtype=torch.bfloat16), torch.empty(300, 256, dtype=torch.bfloat16),
         torch.empty(300, dtype=torch.bfloat16))


def predicted(function: Any, arguments: tuple[Any, ...], **options: Any) -> Any:
    """The configuration that Helion would run the kernel with."""
    asked = seqtune.helion.autotuner(**{"device": "triton:h200", **options})
    return asked(function.bind(arguments), arguments).autotune(skip_cache=True)


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> object:
    """What stands for Helion's own search, which needs a GPU."""
    search = object()
    monkeypatch.setattr("helion.runtime.settings.default_autotuner_fn", lambda bound, arguments, **options: search)
    return search


@pytest.mark.parametrize("name", GPUS)
@pytest.mark.parametrize(("function", "arguments", "features"), [
    (kernels.product, (X, Y), {"m": 512, "n": 768, "k": 1024, "dtype": "fp16"}),
    (kernels.layer, LAYER, {"m": 100, "n": 300, "k": 256, "dtype": "bf16", "trans_b": "yes"})])
def test_the_predicted_configuration_is_our_first_proposal_and_compiles(
        function: Any, arguments: tuple[Any, ...], features: dict[str, Any], name: str, tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    device = described_gpu("triton", name)
    config = predicted(function, arguments, device=f"triton:{name}")
    rows, columns = (0, 1) if function is kernels.product else (1, 0)
    family = kernel("triton.gemm")
    blocks = function.bind(arguments).config_spec.block_sizes
    bounds = {name: (blocks[index].min_size, blocks[index].max_size) for name, index in (
        ("BLOCK_M", rows), ("BLOCK_N", columns), ("BLOCK_K", 2))}
    able = {**dict.fromkeys((parameter.name for parameter in family.parameters), ANY), "SPLIT_K": (1, 1), **bounds}
    task = fitting(narrowed(Task.of(Problem.make("gemm", **features), device, [family]), able))
    tile = {"BLOCK_M": config["block_sizes"][rows], "BLOCK_N": config["block_sizes"][columns],
            "BLOCK_K": config["block_sizes"][2], "num_warps": config["num_warps"],
            "num_stages": config["num_stages"], "GROUP_M": config["l2_groupings"][0]}
    first = next(iter(Answering.of(task).propose(1)))
    if name != "mi300x":  # whose compiler has options that this Helion lacks, which narrows the proposals
        assert {key: first[key] for key in tile} == tile
    bound = function.bind(arguments)
    module = load(bound.to_triton_code(config), tmp_path / f"generated_{function.name}_{name}.py")
    entry = getattr(module, f"_helion_{function.name}")
    types = {"float16": "*fp16", "bfloat16": "*bf16"}
    pointer = types[str(arguments[0].dtype).rpartition(".")[2]]
    binary = compiled(entry, dict.fromkeys(entry.arg_names, pointer), range(len(entry.arg_names)), device,
                      {"num_warps": config["num_warps"], "num_stages": config["num_stages"]})
    assert 0 < binary.metadata.shared <= device.local_memory


def test_seeds_are_different_and_the_first_one_is_the_prediction() -> None:
    seeds = seqtune.helion.seed_configs(kernels.product, (X, Y), 3, device="triton:h200")
    assert len({str(seed) for seed in seeds}) == 3
    assert seeds[0] == predicted(kernels.product, (X, Y))
    with pytest.raises(KernelError, match="no matrix products"):
        seqtune.helion.seed_configs(kernels.scale, (X,), device="triton:h200")


@pytest.mark.parametrize(("function", "arguments", "options", "reason"), [
    (kernels.scale, (X,), {}, "has no matrix products; declare it"),
    (kernels.fp8_product, matrices(64, 64, 64, torch.float8_e5m2), {},
     "it multiplies float8_e5m2; only fp16, bf16, fp32"),
    (kernels.product, (torch.empty(64, 128, dtype=torch.float16)[:, ::2], Y[:64]), {}, "lhs .* no contiguous axis"),
    (kernels.product, (X, Y), {"device": "triton:t4"}, "needs a GPU from sm_80"),
    (kernels.product, (X, Y), {"device": None}, "name the one to predict for"),
    (kernels.product, (X, Y), {"checkpoint": "analytic", "min_confidence": 0.5},
     "the predictor does not estimate its confidence")])
def test_what_cannot_be_predicted_is_one_warning_and_helions_search(
        function: Any, arguments: tuple[Any, ...], options: dict[str, Any], reason: str, searches: object) -> None:
    asked = seqtune.helion.autotuner(**{"device": "triton:h200", **options})
    bound = function.bind(arguments)
    with pytest.warns(SeqtuneWarning, match=f"so Helion searches: .*{reason}") as said:
        assert [asked(bound, arguments) for _ in range(2)] == [searches, searches]
    assert len(said) == 1


def test_below_the_wanted_confidence_helion_searches(searches: object, monkeypatch: pytest.MonkeyPatch) -> None:
    expect(0.7, monkeypatch)
    bound = kernels.product.bind((X, Y))
    with pytest.warns(SeqtuneWarning, match="less than 80 %"):
        assert seqtune.helion.autotuner(device="triton:h200", min_confidence=0.8)(bound, (X, Y)) is searches
    assert predicted(kernels.product, (X, Y), min_confidence=0.7)["num_warps"] in (2, 4, 8)


def declared(**parameters: tuple[Any, ...]) -> Kernel:
    return Kernel.of(
        name="mine.scale", operation="recorded", meaning="a kernel of the user's", backends=("triton",),
        parameters=[Parameter(name, values) for name, values in parameters.items()],
        default={name: values[-1] for name, values in parameters.items()},
        constraints=((f"{next(iter(parameters))} <= rows", "the block must fit"),))


def test_a_declared_kernel_is_answered_in_helions_words(monkeypatch: pytest.MonkeyPatch, searches: object) -> None:
    mine = declared(block_sizes_0=(16, 32, 64, 1024), block_sizes_1=(32, 64), num_warps=(2, 8),
                    pid_type=("flat", "persistent_blocked"))
    options: dict[str, Any] = {"kernel": mine, "problem": lambda x: {"rows": x.shape[0], "columns": x.shape[1]}}
    config = predicted(kernels.scale, (X,), **options)
    assert (config["block_sizes"], config["num_warps"], config["pid_type"]) == ([64, 64], 8, "persistent_blocked")
    with pytest.warns(SeqtuneWarning, match="have no 'num_wraps'"):
        assert seqtune.helion.autotuner(**{**options, "kernel": declared(num_wraps=(2, 8))}, device="triton:h200")(
            kernels.scale.bind((X,)), (X,)) is searches
    with pytest.warns(SeqtuneWarning, match="Helion refuses the configuration: .*power of two"):
        assert seqtune.helion.autotuner(**{**options, "kernel": declared(block_sizes_0=(16, 48))},
                                        device="triton:h200")(kernels.scale.bind((X,)), (X,)) is searches


@pytest.mark.parametrize(("options", "reason"), [
    ({"kernel": 5}, "kernel=5"), ({"kernel": "none.json"}, "cannot read none.json"), ({"device": 5}, "device=5"),
    ({"problem": len}, "`problem`"), ({"min_confidence": 0}, "min_confidence=0")])
def test_arguments_that_can_never_work_are_refused_at_once(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(MisuseError, match=reason):
        seqtune.helion.autotuner(**options)


def test_another_version_of_helion_is_one_line(searches: object) -> None:
    bound = SimpleNamespace(config_spec=SimpleNamespace(block_sizes=[]))
    with pytest.warns(SeqtuneWarning, match=r"the ConfigSpec of Helion \S+ has no default_config; that of 1.5 has"):
        assert seqtune.helion.autotuner(device="triton:h200")(bound, ()) is searches


def test_the_example_in_the_guide_answers(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "guides" / "helion.md").read_text()
    example = "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S))
    module = load(example.replace("matmul.settings.autotuner_fn(", "answer = matmul.settings.autotuner_fn("),
                  tmp_path / "helion_example.py")
    assert module.answer == module.seeds[0]
    assert len(module.searched.settings.autotune_seed_configs) == 4
    config = module.tuner(kernels.scale.bind((X,)), (X,)).autotune()
    assert (config["block_sizes"][0], config["num_warps"]) == (32, 4)
