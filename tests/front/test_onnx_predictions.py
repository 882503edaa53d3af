"""`predict --onnx`: all convolutions and products of a model in one go, and its misuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from onnx import TensorProto, helper

import seqtune
from seqtune import api, errors
from seqtune.__main__ import main
from tests.support.command_line import Refused, Run
from tests.support.installation.optional import skip_without
from tests.support.onnx_files import write_network, write_onnx

VERIFY = ["--verify", "--seconds", "180", "--top", "1"]


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """A model of three convolutions, two of them equal, and a linear layer."""
    return write_network(tmp_path / "network.onnx")


def test_equal_problems_are_answered_once_and_counted(run: Run, network: Path) -> None:
    found = run("predict", "--onnx", network)
    assert [(row["count"], row["nodes"]) for row in found["problems"]] == [
        (1, ["first"]), (2, ["second", "third"]), (1, ["last"])]
    assert sum(row["work_share"] for row in found["problems"]) == pytest.approx(1)
    assert {row["time_share"] for row in found["problems"]} == {None}
    assert (found["seconds"], found["undescribed"], found["absorbed"]) == (None, [], {"Relu": 3})
    for row in found["problems"]:
        alone = seqtune.predict(row["answer"]["problem"], top=1)
        assert row["answer"]["winner"] == json.loads(json.dumps(alone.winner.to_json()))


@pytest.mark.usefixtures("few_rounds")
def test_a_verified_model_has_times_and_their_shares(run: Run, network: Path, tmp_path: Path,
                                                     capsys: pytest.CaptureFixture[str]) -> None:
    journal = str(tmp_path / "journal.sqlite")
    found = run("predict", "--onnx", network, *VERIFY, "--journal", journal)
    rows = found["problems"]
    assert {row["answer"]["budget_seconds"] for row in rows} == {60.0}  # one budget for all
    assert rows[1]["seconds"] == pytest.approx(2 * rows[1]["answer"]["winner"]["seconds"])
    assert sum(row["time_share"] for row in rows) == pytest.approx(1)
    assert found["seconds"] == pytest.approx(sum(row["seconds"] for row in rows))
    assert main(["predict", "--onnx", str(network), *VERIFY, "--journal", journal]) == 0  # from the journal
    shown = capsys.readouterr().out
    assert "4 convolutions and products, 3 different ones" in shown
    assert "part of these problems, as bias or activation: 3 Relu" in shown
    assert "without products: 1 GlobalAveragePool, 1 Flatten, 1 Softmax" in shown
    assert "one run of the model spends" in shown


def test_what_no_kernel_solves_has_the_reason_and_exit_code_1(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_onnx(tmp_path / "half.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"]),
                                               helper.make_node("ConvTranspose", ["i", "f"], ["z"], "up")],
                      {"x": (8, 16), "i": (1, 4, 8, 8)}, {"w": (16, 8), "f": (4, 4, 2, 2)}, element=TensorProto.FLOAT16)
    assert main(["predict", "--onnx", str(path)]) == 1
    shown = capsys.readouterr().out
    assert "gemm m=8 n=8 k=16 dtype=fp16: no kernel" in shown
    assert ("left out: 1 ConvTranspose (a transposed convolution)\n"
            "the shares of work count only what is in the table\n") in shown


def test_a_model_of_which_no_problem_describes_a_product_has_no_answer_and_exit_code_1(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_onnx(tmp_path / "up.onnx", [helper.make_node("ConvTranspose", ["i", "f"], ["z"])], {"i": (1, 4, 8, 8)},
                      {"f": (4, 4, 2, 2)})
    assert main(["predict", "--onnx", str(path), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["problems"], found["seconds"], len(found["undescribed"])) == ([], None, 1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the newer exporter needs onnxscript, and five seconds more
def test_a_model_that_pytorch_exported_has_the_problems_of_its_layers(tmp_path: Path) -> None:
    skip_without("torch")
    import torch

    conv, linear = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1), torch.nn.Linear(8, 4)
    x = torch.zeros(1, 3, 16, 16)

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.linear = conv, linear

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.linear(self.conv(x).mean((2, 3)))
            return y

    torch.onnx.export(Network().eval(), (x,), str(tmp_path / "exported.onnx"), dynamo=False, input_names=["x"],
                      dynamic_axes={"x": {0: "batch"}})
    found = api.predict_onnx(tmp_path / "exported.onnx", inputs={"x": (1, 3, 16, 16)})
    assert [row.answer.problem for row in found.rows] == [
        seqtune.predict(conv, input_shape=x.shape).problem, seqtune.predict(linear, input_shape=(1, 8)).problem]


@pytest.mark.parametrize(("words", "says"), [
    (["--onnx", "{}/none.onnx"], "none.onnx"), (["--onnx", "{}"], "Is a directory"),
    (["--onnx", "{}/text.onnx"], "is no ONNX file"), (["--onnx", "{}/cut.onnx"], "is no ONNX file"),
    (["--onnx", "{}/open.onnx"], "give --input x=1x3x16x16"),
    (["--onnx", "{}/open.onnx", "--input", "y=1x3x16x16"], "no input 'y'; it has 'x'"),
    (["--onnx", "{}/open.onnx", "--input", "x=1x3x16"], "has 4 axes, not 3"),
    (["--onnx", "{}/open.onnx", "--input", "x=1x4x16x16"], "axis 1 of input 'x' has 3 elements, not 4"),
    (["--onnx", "{}/open.onnx", "--input", "x=0x3x16x16"], "from 1 to"),
    (["--onnx", "{}/open.onnx", "--input", "1x3x16x16"], "is not a name and its sizes"),
    (["--onnx", "{}/open.onnx", "--input", "x=1x-3"], "is not a name and its sizes"),
    (["--onnx", "{}/open.onnx", "--input", "x=1x3x16x16", "--input", "x=1"], "given twice"),
    (["--onnx", "{}/network.onnx", "gemm", "m=8", "n=8", "k=8"], "either a problem or an ONNX file"),
    (["--onnx", "{}/network.onnx", "--tpo", "5"], "--tpo"),
    (["--onnx", "{}/network.onnx", "--problems", "resnet18"], "either --problems"),
    (["--onnx", "{}/network.onnx", "--out", "{}/rows.csv"], "--out"),
    (["--onnx", "{}/network.onnx", "--explain"], "--explain"),
    (["--onnx", "{}/network.onnx", "--min-confidence", "0.9"], "--min-confidence"),
    (["--onnx", "{}/network.onnx", "--seconds", "5"], "--verify"),
    (["--onnx", "{}/network.onnx", "--device", "llvm:999"], "llvm:999"),
    (["gemm", "m=8", "n=8", "k=8", "--input", "x=1"], "--onnx FILE")])
def test_a_misuse_is_one_line(words: list[str], says: str, network: Path, refused: Refused) -> None:
    folder = network.parent
    write_network(folder / "open.onnx", "batch")
    (folder / "text.onnx").write_text("a model\n")
    (folder / "cut.onnx").write_bytes(network.read_bytes()[:-100])
    before = sorted(folder.iterdir())
    assert says in refused("predict", *(word.replace("{}", str(folder)) for word in words))
    assert sorted(folder.iterdir()) == before


def test_without_the_package_the_line_names_the_extra(network: Path, refused: Refused,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "is_installed", lambda package: False)
    assert refused("predict", "--onnx", network) == "seqtune: onnx is not installed: pip install 'seqtune[onnx]'"
