"""Export and import of the files that vLLM and SGLang load, on the command line."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from shlex import quote

import pytest

from seqtune.__main__ import main
from seqtune.data.dataset import Dataset
from seqtune.predictor.checkpoint import CHOICES_OF_KERNELS, NEW_GPU
from tests.support.command_line import Refused, Run
from tests.support.confidence import expect
from tests.support.devices import described_gpu
from tests.support.dispatchers import by_size, changed, saved
from tests.support.installation.optional import needs
from tests.support.serving.models import write_model


def serve(project: str, model: Path, out: Path, *more: str) -> int:
    return main(["serve-files", project, "--model-config", str(model), "--device", "NVIDIA H200", "--out", str(out),
                 "--tokens", "64,1,2048,1", *more])


@pytest.mark.parametrize("project", ["vllm", "sglang"])
def test_files_of_a_model_are_written_read_and_written_again(
        project: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out, again = write_model(tmp_path, "deepseek-v3"), tmp_path / "out", tmp_path / "again"
    assert serve(project, model, out, "--tp", "8", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    files = {path.relative_to(out): path.read_text() for path in out.rglob("*.json")}
    assert len(files) == len(report["files"])
    assert report["environment"].endswith(f"={quote(str(out))}")
    assert "linear/*.json" in report["copy"]
    for text in files.values():
        assert [int(tokens) for tokens in json.loads(text)] == [1, 64, 2048]
    data = tmp_path / "choices.parquet"
    assert main(["import", project, str(out), "--out", str(data)]) == 0
    assert main(["serve-files", project, "--data", str(data), "--out", str(again)]) == 0
    assert {path.relative_to(again): path.read_text() for path in again.rglob("*.json")} == files


def test_a_file_that_exists_is_kept_and_nothing_else_is_written(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = write_model(tmp_path, "deepseek-v3"), tmp_path / "out"
    kept = out / "E=256,N=256,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json"
    out.mkdir()
    kept.write_text("mine")
    assert serve("vllm", model, out, "--tp", "8") == 2
    assert capsys.readouterr().err == f"seqtune: {kept} exists; --force overwrites files\n"
    assert [path.read_text() for path in out.rglob("*.json")] == ["mine"]
    assert serve("vllm", model, out, "--tp", "8", "--force") == 0
    assert len(list(out.rglob("*.json"))) == 9


def test_an_import_of_choices_holds_out_the_layers_that_a_condition_names(tmp_path: Path, run: Run) -> None:
    own = {"BLOCK_SIZE_M": 32, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 16, "num_warps": 8,
           "num_stages": 2}
    for experts in (8, 64):
        (tmp_path / f"E={experts},N=3584,device_name=NVIDIA_H200.json").write_text(json.dumps({"64": own}))
    data = tmp_path / "choices.parquet"
    report = run("import", "sglang", tmp_path, "--hold-out", "experts=64", "--out", data)
    assert (report["problems"], report["held_out"]) == (2, 1)
    (held_out,) = Dataset.read(data).held_out
    assert "experts=64" in held_out


def test_files_of_a_model_take_the_nearest_choices_of_a_data_set(
        tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    model, data, out = write_model(tmp_path, "mixtral"), tmp_path / "choices.parquet", tmp_path / "out"
    own = {"BLOCK_SIZE_M": 32, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 16, "num_warps": 8,
           "num_stages": 2}
    for version, name, tokens in (("3_1_0", "E=8,N=3584,device_name=NVIDIA_H200.json", 1),
                                  ("3_6_0", "E=8,N=3584,device_name=NVIDIA_H200.json", 64),
                                  ("3_6_0", "E=8,N=3584,device_name=NVIDIA_A100-SXM4-80GB.json", 16),
                                  ("3_6_0", "E=8,N=3584,device_name=Unheard_Of.json", 16)):
        (tmp_path / "configs" / f"triton_{version}").mkdir(parents=True, exist_ok=True)
        text = json.dumps({"64": {**own, "GROUP_SIZE_M": tokens}})
        (tmp_path / "configs" / f"triton_{version}" / name).write_text(text)
    assert run("import", "sglang", tmp_path, "--out", data)["records"] == 3
    assert serve("vllm", model, out, "--tp", "8", "--data", str(data), "--json") == 0
    assert json.loads(capsys.readouterr().out)["files"][0]["from data"] == 3
    (path,) = out.iterdir()
    assert json.loads(path.read_text())["64"] == {**own, "GROUP_SIZE_M": 64}  # the same GPU, the newest Triton
    assert run("serve-files", "vllm", "--model-config", model, "--device", "mi300x", "--data", data, "--out",
               tmp_path / "amd")["files"][0]["from data"] == 0  # by the model: another maker's GPU


@needs("torch", "triton")
@pytest.mark.parametrize("gpu", [pytest.param("a100", marks=pytest.mark.anywhere), "h200", "mi300x"])
def test_the_settings_of_experts_compile(gpu: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.support.triton.experts import experts
    from tests.support.triton.generated import compiled

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    device = described_gpu("triton", gpu)
    assert serve("vllm", write_model(tmp_path, "mixtral"), tmp_path / "out", "--tp", "8", "--device",
                  device.model) == 0
    (path,) = (tmp_path / "out").rglob("*.json")
    pointers = dict.fromkeys(("x", "weights", "y"), "*bf16") | {
        "shares": "*fp32", "sorted_pairs": "*i32", "block_experts": "*i32"}
    for settings in json.loads(path.read_text()).values():
        constants = {name: value for name, value in settings.items() if name in experts.arg_names} | {"SHARED": 1}
        signature = {name: pointers.get(name, "constexpr" if name in constants else "i32")
                     for name in experts.arg_names}
        aligned = [experts.arg_names.index(name) for name in (*pointers, "columns", "depth")]
        options = {name: value for name, value in settings.items() if name not in constants}
        binary = compiled(experts, signature, aligned, device, options, constants)
        assert 0 < binary.metadata.shared <= device.local_memory


@pytest.mark.parametrize(("gpu", "notes"), [("h200", ()), ("mi250x", (NEW_GPU,))])
def test_the_answer_names_the_predictor_and_says_what_it_has_not_learned(
        gpu: str, notes: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = write_model(tmp_path, "mixtral")
    assert main(["serve-files", "vllm", "--model-config", str(model), "--device", gpu, "--tp", "2",
                 "--tokens", "1", "--out", str(tmp_path / "out"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["predictor"], report["note"]) == ("gpu", "; ".join([*notes, CHOICES_OF_KERNELS]))


@pytest.mark.parametrize("project", ["vllm", "sglang"])
def test_files_tell_their_confidence_and_those_below_the_wanted_one_are_left_out(
        project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    model = write_model(tmp_path, "deepseek-v3")
    assert serve(project, model, tmp_path / "none", "--tp", "8", "--checkpoint", "analytic", "--min-confidence",
                  "0.5") == 2
    assert "no file can be written; E=256" in (said := capsys.readouterr().err)
    assert "the predictor does not estimate its confidence (--min-confidence)" in said
    assert not (tmp_path / "none").exists()
    expect(lambda task: 0.6 if task.problem.type == "fused_moe" else 0.9, monkeypatch)
    assert serve(project, model, tmp_path / "all", "--tp", "8", "--json") == 0
    rows = json.loads(capsys.readouterr().out)["files"]
    assert {row["file"][0]: row["confidence"] for row in rows} == {"E": 0.6, "N": 0.9}
    assert serve(project, model, tmp_path / "some", "--tp", "8", "--min-confidence", "0.8", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert {row["file"][0] for row in report["files"]} == {path.name[0] for path in (tmp_path / "some").rglob("*.json")}
    assert {row["file"][0] for row in report["files"]} == {"N"}
    assert {row["file"][0] for row in report["left out"]} == {"E"}
    assert "60 % of the best speed are expected, less than 80 %" in report["left out"][0]["reason"]


def test_files_that_sglang_alone_looks_for_are_not_written_for_vllm(
        tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    model, data, out = write_model(tmp_path, "deepseek-v3"), tmp_path / "choices.parquet", tmp_path / "out"
    assert serve("sglang", model, tmp_path / "sglang", "--tp", "8") == 0
    assert main(["import", "sglang", str(tmp_path / "sglang"), "--out", str(data)]) == 0
    capsys.readouterr()
    report = run("serve-files", "vllm", "--data", data, "--out", out)
    written = sorted(path.name for path in out.rglob("*.json"))
    assert [name.partition(",device")[0] for name in written if name.startswith("E=")] == ["E=256,N=256"]
    assert not [name for name in written if "_down" in name]
    assert len(report["left out"]) == 3
    assert len(report["files"]) == len(written)


def test_a_kill_between_two_files_leaves_complete_files_alone(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, out, place, moved = write_model(tmp_path, "deepseek-v3"), tmp_path / "out", os.replace, []
    assert serve("vllm", model, tmp_path / "whole", "--tp", "8") == 0

    def killed(source: Path, target: Path) -> None:
        moved.append(target)
        if len(moved) == 5:
            raise KeyboardInterrupt
        assert len([*out.rglob("*.new"), *out.rglob("*.json")]) == 9  # all were written before the first is moved
        place(source, target)

    monkeypatch.setattr("os.replace", killed)
    with suppress(KeyboardInterrupt):
        serve("vllm", model, out, "--tp", "8")
    monkeypatch.undo()
    files = {path.relative_to(out): path.read_text() for path in out.rglob("*.json")}
    whole = {path.relative_to(tmp_path / "whole"): path.read_text() for path in (tmp_path / "whole").rglob("*.json")}
    assert 0 < len(files) < 9
    assert files.items() <= whole.items()
    assert serve("vllm", model, out, "--tp", "8", "--force") == 0
    assert {path.relative_to(out): path.read_text() for path in out.rglob("*.json")} == whole


@pytest.mark.parametrize(("arguments", "reason"), [
    (["vllm"], "need --model-config and --device, or --missing-from"),
    (["vllm", "--model-config", "none.json", "--device", "h200"], "cannot read none.json"),
    (["vllm", "--missing-from", "none.log"], "cannot read none.log"),
    (["vllm", "--model-config", "none.json", "--device", "Voodoo 2"], "no facts are known here of the GPU"),
    (["sglang", "--journal", "j"], "sglang has no option --journal; its own are --model-config, --device"),
    (["vllm", "--data", "d", "--tp", "2"], "leave out the other options"),
    (["vllm", "--min-confidence", "2", "--model-config", "none.json", "--device", "h200"],
     "--min-confidence=2.0 is not a share"),
    (["t4"], "t4 is read by no server; there are vllm, sglang"),
    (["vllm", "--model-config", "none.json", "--tokens", "1;2"], "--tokens")])
def test_misuse_is_one_line_and_writes_nothing(
        arguments: list[str], reason: str, tmp_path: Path, refused: Refused) -> None:
    said = refused("serve-files", *arguments, "--out", tmp_path / "out")
    assert reason in said
    assert not list(tmp_path.iterdir())


def test_a_dispatch_fills_the_ladder_of_its_layers_and_pins_the_default_elsewhere(tmp_path: Path, run: Run) -> None:
    gpu, nvidia = described_gpu("triton", "h200"), {"matrix_instr_nonkdim": 0, "waves_per_eu": 0, "kpack": 1}
    members = [changed("triton.fused_moe", **nvidia, BLOCK_SIZE_M=block, BLOCK_SIZE_N=64, BLOCK_SIZE_K=128)
               for block in (16, 64)]
    dispatch = saved(tmp_path, by_size("tokens", 64, members, gpu, "tokens=1..1024", "experts=256", "top_k=8",
                                       "hidden=7168", "intermediate=256", "half=up", "dtype=fp8_w8a8", "scale_n=128",
                                       "scale_k=128"))
    model, out = write_model(tmp_path, "deepseek-v3"), tmp_path / "out"
    report = run("serve-files", "vllm", "--model-config", model, "--device", "NVIDIA H200", "--tp", 8, "--out", out,
                 "--checkpoint", dispatch)
    (file,) = out.glob("*.json")
    table = {int(tokens): settings for tokens, settings in json.loads(file.read_text()).items() if tokens.isdecimal()}
    assert [tokens for tokens, settings in table.items() if settings["BLOCK_SIZE_M"] == 16] == [1, 2, 4, 8, 16, 24, 32,
                                                                                                48, 64]
    assert {settings["BLOCK_SIZE_N"] for tokens, settings in table.items() if tokens <= 1024} == {64}
    assert len(table) == 18
    assert "chooses among triton.fused_moe, not triton.scaled_gemm" in report["left out"][0]["reason"]
    assert "outside of the domain of dispatch.json" in report["note"]
