"""Which files a model or a log asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from seqtune.data.gpu_names import gpu_of
from seqtune.errors import DeviceError, FormatError, SeqtuneError
from seqtune.integrations.serving.formats.request import ServingRequest, wanted_files
from tests.support.serving.models import write_model

H200 = gpu_of("NVIDIA H200")
ADVICE = "Performance might be sub-optimal! Config file not found at"
VLLM_LOG = (
    f"WARNING 11-22 [fused_moe.py:886] Using default MoE config. {ADVICE} "
    "['/opt/vllm/fused_moe/configs/E=64,N=2048,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json']\n"
    f"(EngineCore pid=1) WARNING Using default W8A8 Block FP8 kernel config. {ADVICE} "
    "/opt/configs/N=512,K=7168,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json\n")
SGLANG_LOG = (
    f"Using default MoE kernel config. {ADVICE} /sgl/configs/triton_3_6_0/E=257,N=256,device_name=NVIDIA_H200,"
    "dtype=fp8_w8a8,block_shape=[128, 128]{}.json, you can create them with https://github.com/sgl-project/sglang\n")


def names(path: Path, project: str = "vllm", **options: Any) -> list[str]:
    request = ServingRequest(path, **options)
    return [wanted.file.name(project) for wanted in wanted_files(request, project, H200)[0]]


@pytest.mark.parametrize(("model", "options", "sizes"), [
    ("mixtral", {"tp": 4}, "E=8,N=3584"), ("mixtral", {"tp": 8, "ep": 8}, "E=1,N=14336"),
    ("qwen3-moe", {"tp": 2}, "E=128,N=384"), ("llama-4", {"tp": 8}, "E=16,N=1024"),
    ("deepseek-v3", {"tp": 8, "ep": 16, "dtype": "bf16"}, "E=16,N=2048")])
def test_experts_on_one_gpu_make_the_name(model: str, options: dict[str, Any], sizes: str, tmp_path: Path) -> None:
    assert names(write_model(tmp_path, model), **options) == [f"{sizes},device_name=NVIDIA_H200.json"]


def test_a_number_may_stand_once_for_each_layer_and_null_is_no_number(tmp_path: Path) -> None:
    path = write_model(tmp_path, "qwen3-moe", num_experts_per_tok=None, moe_topk=[8] * 48,
                       moe_intermediate_size=[768] * 48)
    path.write_text(path.read_text().replace('"num_experts": 128', '"num_experts": null, "num_local_experts": 128'))
    assert names(path, tp=2) == ["E=128,N=384,device_name=NVIDIA_H200.json"]
    with pytest.raises(FormatError, match="moe_topk"):
        names(write_model(tmp_path, "qwen3-moe", num_experts_per_tok=None, moe_topk=[8, 4]))


def test_sglang_gets_the_shared_expert_and_the_second_product_too(tmp_path: Path) -> None:
    path = write_model(tmp_path, "deepseek-v3", quantization_config=None)
    assert names(path, "sglang", tp=8) == [
        f"E={experts},N=256,device_name=NVIDIA_H200{down}.json" for down in ("", "_down") for experts in (256, 257)]


CHANNEL = {"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {"group_0": {
    "targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"},
    "input_activations": {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True}}}}


def groups(*parts: tuple[str, str]) -> dict[str, object]:
    """A quantization of compressed-tensors with groups of these targets and strategies."""
    return {"quant_method": "compressed-tensors", "config_groups": {
        f"group_{number}": {"targets": [target], "weights": {"strategy": strategy}}
        for number, (target, strategy) in enumerate(parts)}}


@pytest.mark.parametrize(("quantization", "part", "noted"), [
    (CHANNEL, ",per_channel_quant=True", False), ({"quant_method": "w8a8_fp8"}, ",per_channel_quant=True", False),
    ({"quant_method": "w8a8_int8"}, ",per_channel_quant=True", False),
    (groups(("Linear", "tensor")), "", False), ({"quant_method": "fp8"}, "", False),
    ({"quant_method": "quark", "global_quant_config": {"weight": {"qscheme": "per_channel"}}},
     ",per_channel_quant=True", False),
    ({"quant_method": "quark", "global_quant_config": {"weight": {"qscheme": "per_tensor"}}}, "", False),
    (groups(("re:.*self_attn.*", "tensor"), ("re:.*experts.*", "channel")), ",per_channel_quant=True", False),
    (groups(("re:.*experts.*", "tensor"), ("Linear", "channel")), "", False),
    (groups(("Linear", "tensor"), ("re:.*mlp.*", "channel")), "", True), ({"quant_method": "new"}, "", True),
    ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": None}}}, "", True),
    ({"quant_method": "compressed-tensors", "config_groups": [3], "global_quant_config": "x"}, "", True),
    ({"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"strategy": "block",
                                                                                "block_structure": [0, "x"]}}}}, "",
     False),
    (None, "", True)])
def test_sglang_names_files_of_scales_per_channel(quantization: dict[str, object] | None, part: str, noted: bool,
                                                  tmp_path: Path) -> None:
    path = write_model(tmp_path, "qwen3-moe", quantization_config=quantization)
    request = ServingRequest(path, dtype="fp8_w8a8")
    up, down = wanted_files(request, "sglang", H200)[0]
    assert up.file.name("sglang") == f"E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8{part}.json"
    assert down.file.name("sglang") == f"E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8{part}_down.json"
    assert up.problem(8)["per_channel"] == ("yes" if part else "no")
    assert ("does not tell whether each output" in up.note) is noted
    (file,) = wanted_files(request, "vllm", H200)[0]
    assert (file.file.name("vllm"), file.note) == ("E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8.json", "")


@pytest.mark.parametrize("block", [[128, 128], "128x128"])
def test_blocks_of_compressed_tensors_are_in_the_names(block: object, tmp_path: Path) -> None:
    path = write_model(tmp_path, "qwen3-moe", quantization_config={
        "quant_method": "compressed-tensors", "config_groups": {"group_0": {
            "targets": ["Linear"], "weights": {"strategy": "block", "block_structure": block}}}})
    for project, comma in (("vllm", ","), ("sglang", ", ")):
        first, *rest = names(path, project, dtype="fp8_w8a8")
        assert first == f"E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128{comma}128].json"
        assert any(name.startswith("N=") for name in rest)


@pytest.mark.parametrize(("changes", "options", "reason"), [
    ({}, {"tp": 3}, "3 GPUs do not divide"), ({}, {"tp": 0}, "--tp=0 is not a number of GPUs"),
    ({}, {"tp": 4, "ep": 2}, "takes all GPUs"), ({}, {"dtype": "fp4"}, "--dtype='fp4' is not one of"),
    ({}, {"triton_version": "../3"}, "is not a version"), ({"hidden_size": None}, {}, "hidden"),
    ({"hidden_size": -1}, {}, "hidden_size"), ({"hidden_size": 1 << 40}, {}, "hidden_size"),
    ({"hidden_size": "4096"}, {}, "hidden_size"), ({"num_experts_per_tok": None}, {}, "a token goes to"),
    ({"intermediate_size": None}, {}, "moe_intermediate_size"), ({"num_local_experts": 0}, {}, "looks for no file"),
    ({"quantization_config": {"quant_method": "awq"}}, {}, "name them with --dtype"),
    ({"quantization_config": {"quant_method": "fp8", "weight_block_size": [128]}}, {}, "weight_block_size"),
    ({"num_experts_per_tok": 9}, {}, r"mixtral\.json: a token goes to 9 experts of 8"),
    ({"hidden_size": 16}, {}, r"mixtral\.json: num_attention_heads=32 is more than hidden_size=16"),
    ({"kv_lora_rank": 512, "v_head_dim": None}, {}, r"mixtral\.json: kv_lora_rank needs qk_nope_head_dim"),
    ({"torch_dtype": "float32"}, {}, "neither bfloat16 nor float16")])
def test_what_does_not_fit_is_one_line(changes: dict[str, object], options: dict[str, Any], reason: str,
                                       tmp_path: Path) -> None:
    with pytest.raises(SeqtuneError, match=reason) as error:
        names(write_model(tmp_path, "mixtral", **changes), **options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "[]", "3", "{", "[" * 9000, "[" + "9" * 5000 + "]",
                                  '{"text_config": {"text_config": {}}}'])
def test_a_config_that_is_none_is_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(FormatError, match=r"config\.json") as error:
        names(path)
    assert "limit" not in str(error.value)


def test_a_log_names_the_missing_files_once(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(VLLM_LOG * 3 + "Using configuration from E=1,N=1,device_name=x.json for MoE layer\n")
    request = ServingRequest(write_model(tmp_path, "deepseek-v3"), log)
    (experts, linear), _ = wanted_files(request, "vllm", None)
    assert experts.problem(8).names()["expert_parallel"] == 4
    assert linear.problem(8).brief() == "scaled_gemm m=8 n=512 k=7168"
    with pytest.raises(FormatError, match="serve-files vllm"):
        wanted_files(request, "sglang", None)
    with pytest.raises(SeqtuneError, match="--model-config"):
        wanted_files(ServingRequest(missing_from=log), "vllm", None)
    log.write_text("".join(map(SGLANG_LOG.format, ("", "_down"))))
    (up, down), _ = wanted_files(request, "sglang", None)
    assert (up.top_k, up.file.down, down.file.down) == (9, False, True)  # the shared expert is one more


@pytest.mark.parametrize(("sizes", "misfit"), [
    ("E=7,N=256", "E=7 is no"), ("E=256,N=256", "E=256 is no"), ("E=8,N=99", "N=99 is no"),
    ("E=9,N=14336", "E=9 is no"), ("E=8,N=28672", "N=28672 is no")])
def test_a_log_of_another_model_is_one_line(sizes: str, misfit: str, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(f"Using default MoE config. {ADVICE} ['/configs/{sizes},device_name=NVIDIA_H200.json']\n")
    with pytest.raises(SeqtuneError, match=rf"server\.log names {sizes},dev.*mixtral\.json \({misfit}"):
        wanted_files(ServingRequest(write_model(tmp_path, "mixtral"), log), "vllm", None)


def test_a_gpu_is_found_by_every_spelling_of_its_name() -> None:
    assert gpu_of("h200") == gpu_of("triton:h200") == gpu_of("NVIDIA_H200") == gpu_of("nvidia h200") == H200
    assert gpu_of("RTX 4090").model == "NVIDIA GeForce RTX 4090"
    assert gpu_of("NVIDIA_H100").model == "NVIDIA_H100"  # a driver's own shorter name
    variant = gpu_of("NVIDIA H200 NVL2")
    assert (variant.model, variant.compute_units) == ("NVIDIA H200 NVL2", H200.compute_units)
    for name in ("", "Voodoo 2", "a/b", "NVIDIA", "x" * 200, "nvidia h200 nvl2", "h200-nvl2", "NVIDIA h200 NVL2"):
        with pytest.raises(DeviceError):
            gpu_of(name)


def test_names_in_a_log_that_are_not_known_here_are_left_out(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    others = "".join(f"Using default MoE config. {ADVICE} /configs/E=8,N=14336,device_name={rest}.json\n"
                     for rest in ("FOO9000", "NVIDIA_H200,dtype=nvfp4_w4a4"))
    log.write_bytes((others + VLLM_LOG).encode("utf-16"))  # as PowerShell's redirection writes it
    files, left_out = wanted_files(ServingRequest(write_model(tmp_path, "deepseek-v3"), log), "vllm", None)
    assert len(files) == 2
    assert left_out == {
        "E=8,N=14336,device_name=FOO9000.json": "a GPU without known facts",
        "E=8,N=14336,device_name=NVIDIA_H200,dtype=nvfp4_w4a4.json": "a dtype or sizes that are not known here"}
    log.write_text(others)
    with pytest.raises(FormatError, match=r"server\.log names no file that can be written; .*FOO9000"):
        wanted_files(ServingRequest(missing_from=log), "vllm", None)
