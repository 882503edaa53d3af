"""seqtune.triton's hooks under Triton's own autotuner, without a GPU."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from seqtune.data.dataset import Dataset
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Status
from seqtune.errors import MisuseError, SeqtuneWarning
from seqtune.integrations.triton.formats import TRITON
from seqtune.kernels.kernel import Kernel, Parameter
from seqtune.kernels.triton.text import AMD_ONLY
from tests.support.confidence import expect
from tests.support.devices import described_gpu
from tests.support.installation.optional import needs
from tests.support.paths import ROOT
from tests.support.triton.generated import compiled
from tests.support.triton.stub_gpu import stub_gpu, tuned

triton: Any = pytest.importorskip("triton", reason="Triton is not installed (Linux only): make develop")

import seqtune.triton as st  # noqa: E402

needs_listener = pytest.mark.skipif(not hasattr(triton.knobs.autotuning, "listener"),
                                    reason="this Triton has no listener for autotuning")
TIMES_ONE = tuple(map(int, triton.__version__.split(".")[:2])) < (3, 8)  # also times the one that is left by pruning
PROGRAM = ROOT / "tests" / "support" / "triton" / "interpreted_matmul.py"
HALVES = np.zeros(2, np.float16)
ARGUMENTS = {"a": HALVES, "M": 512, "N": 1024, "K": 256}


@needs("torch")
def test_with_prune_triton_compares_nothing_and_without_a_gpu_it_tunes_as_it_would_without_us() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", str(PROGRAM)], cwd=ROOT, timeout=120, check=False, text=True,
                          capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    answer, unhelped = json.loads(done.stdout)
    assert answer["benchmarks"] == TIMES_ONE
    assert answer["error"] < 0.05
    assert answer["hooks"] == 2 + TIMES_ONE
    assert answer["best"]["SCALE"] == 2
    assert answer["warnings"] == []
    assert unhelped["benchmarks"] == len(st.space("gemm"))
    assert unhelped["error"] < 0.05
    assert len(unhelped["warnings"]) == 1
    assert "name the one to predict for" in unhelped["warnings"][0]


def early(**options: Any) -> Any:
    return st.prune(**{"operation": "gemm", "m": "M", "n": "N", "k": "K", "device": "triton:h200", **options})[
        "early_config_prune"]


@needs("torch")
@pytest.mark.parametrize("name", ["a100", "h200", pytest.param("mi300x", marks=pytest.mark.anywhere)])
def test_the_users_kernel_compiles_with_the_prediction(name: str, tmp_path: Path,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.support.triton.matmul import matmul

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    device, names = described_gpu("triton", name), {"BLOCK_M": "TILE_M"}
    (config,) = early(device=f"triton:{name}", names=names)(
        st.space("gemm", names=names, only=("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M")), ARGUMENTS)
    options = {option: config.kwargs.pop(option) for option in AMD_ONLY if option in config.kwargs}
    constants = {**config.kwargs, "SCALE": 2}
    signature = {argument: "*fp16" if argument in "abc" else "constexpr" if argument in constants else "i32"
                 for argument in matmul.arg_names}
    binary = compiled(matmul, signature, range(6), device, {
        "num_warps": config.num_warps, "num_stages": config.num_stages, **options}, constants)
    assert 0 < binary.metadata.shared <= device.local_memory


def test_the_list_to_begin_with_has_the_default_first_and_different_configurations() -> None:
    listed = st.space("gemm", names={"BLOCK_M": "TILE"}, only=("BLOCK_M", "BLOCK_N", "BLOCK_K"))
    assert listed[0].kwargs == {"TILE": 64, "BLOCK_N": 64, "BLOCK_K": 32}
    assert len(set(map(str, listed))) == len(listed) >= 2
    with pytest.raises(MisuseError, match="no parameter 'BLOCK_Q'"):
        st.space("gemm", only=("BLOCK_Q",))
    with pytest.raises(MisuseError, match="there are some for gemm"):
        st.space("conv2d")


def test_several_proposals_are_different_and_a_parameter_that_the_kernel_lacks_is_left_out() -> None:
    configs = st.space("gemm", only=("BLOCK_M", "BLOCK_N", "BLOCK_K"))
    found = early(top=4)(configs, ARGUMENTS, grid=(1,), warmup=False)
    assert len(set(map(str, found))) == 4
    assert all(config.kwargs.keys() == {"BLOCK_M", "BLOCK_N", "BLOCK_K"} for config in found)


def test_an_amd_gpu_gets_the_options_of_its_compiler() -> None:
    (config,) = early(device="triton:mi300x")(st.space("gemm"), ARGUMENTS)
    assert config.kwargs["matrix_instr_nonkdim"] in (16, 32)
    (config,) = early()(st.space("gemm"), ARGUMENTS)
    assert "matrix_instr_nonkdim" not in config.kwargs


@pytest.mark.parametrize(("options", "arguments", "reason"), [
    ({"device": "triton:z1"}, {}, "triton:z1"),
    ({}, {"M": object()}, "describes no problem"),
    ({}, {"a": np.zeros(1, np.int8)}, "only fp32, fp16 and bf16"),
    ({"m": "ROWS"}, {}, "without the argument 'ROWS'"),
    ({}, {"M": True}, "argument 'M', which is m, must be a number and is True"),
    ({}, {"M": np.zeros((), np.int64)}, "must be a number and is of type int64"),
    ({"names": {"BLOCK_M": "TILE"}}, {}, "no configuration of the kernel has 'TILE'"),
    ({"k": 0}, {}, "k=0")])
def test_what_cannot_be_predicted_is_one_warning_and_the_users_list(
        options: dict[str, Any], arguments: dict[str, Any], reason: str) -> None:
    hook, configs = early(**options), st.space("gemm")
    with pytest.warns(SeqtuneWarning, match=f"so Triton tunes: .*{reason}") as said:
        answers = [hook(configs, {**ARGUMENTS, **arguments}) for _ in range(2)]
    assert answers == [configs, configs]
    assert len(said) == 1


@pytest.mark.parametrize(("options", "reason"), [
    ({"top": 0}, "top=0"), ({"top": 1.5}, "top=1.5"), ({"top": "3"}, "top='3'"), ({"top": True}, "top=True"),
    ({"names": "BLOCK"}, "no mapping"), ({"names": {"BLOCK_M": 3}}, "no mapping"),
    ({"names": {"BLOCKM": "X"}}, "no parameter 'BLOCKM'; there are BLOCK_M"),
    ({"names": {"BLOCK_M": "BLOCK_N"}}, "'BLOCK_N' would be the name of two parameters"),
    ({"names": {"BLOCK_M": "X", "BLOCK_N": "X"}}, "'X' would be the name of two parameters"),
    ({"kernel": 5}, "kernel=5 is no Kernel or str or Path"), ({"device": 5}, "device=5"), ({"checkpoint": 5}, "=5"),
    ({"min_confidence": 2}, "min_confidence=2"), ({"m": [1]}, r"m=\[1\] is no int"), ({"operation": 5}, "operation=5"),
    ({"operation": "conv2d"}, "there are some for gemm"), ({"q": "Q"}, "no feature 'q'")])
def test_arguments_that_can_never_work_are_refused_at_once(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(MisuseError, match=reason):
        early(**options)


def test_below_the_wanted_confidence_triton_tunes_and_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    configs = st.space("gemm")
    with pytest.warns(SeqtuneWarning, match="so Triton tunes: the predictor does not estimate its confidence"):
        assert early(checkpoint="analytic", min_confidence=0.5)(configs, ARGUMENTS) == configs
    expect(0.7, monkeypatch)
    with pytest.warns(SeqtuneWarning, match=r"expected to reach 70 % of the best speed .*, less than 80 %"):
        assert early(min_confidence=0.8)(configs, ARGUMENTS) == configs
    assert len(early(min_confidence=0.7)(configs, ARGUMENTS)) == 1


def declared() -> Kernel:
    return Kernel.of(
        name="mine.scale", operation="recorded", meaning="a kernel of the user's", backends=("triton",),
        parameters=(Parameter("BLOCK", (32, 64, 128), "elements of a program"),
                    Parameter("num_warps", (2, 4), "warps")),
        derived=(("gemm_m", "M"), ("gemm_n", "128"), ("gemm_k", "64"), ("products", "1"), ("block_m", "BLOCK"),
                 ("block_n", "128"), ("block_k", "64"), ("block_threads", "num_warps * 32"), ("stages", "3"),
                 ("split_k", "1"), ("group_m", "1"), ("blocks", "ceil_div(M, BLOCK)"),
                 ("shared_bytes", "(BLOCK + 128) * 256"), ("thread_registers_estimate", "64"),
                 ("element_bytes", "2"), ("tensor", "1"), ("load_bytes", "16")),
        constraints=(("BLOCK <= M", "the block must fit"),), default={"BLOCK": 32, "num_warps": 4})


def test_a_users_own_kernel_takes_the_same_hook() -> None:
    configs = [triton.Config({"BLOCK": size}) for size in (32, 64)]
    hook = st.prune(kernel=declared(), device="triton:h200", M="M")["early_config_prune"]
    (config,) = hook(configs, {"x": HALVES, "M": 100})
    assert config.kwargs["BLOCK"] in (32, 64)
    assert config.num_warps in (2, 4)


def test_the_analytic_model_answers_for_a_kernel_that_the_shipped_checkpoint_does_not_know(
        monkeypatch: pytest.MonkeyPatch) -> None:
    hook = st.prune(kernel=declared(), device="triton:h200", M="M")["early_config_prune"]
    configs = [triton.Config({"BLOCK": size}) for size in (32, 64)]
    expected = hook(configs, {"x": HALVES, "M": 100})
    monkeypatch.setattr("seqtune.predictor.predictors.cached_checkpoint",
                        lambda name: SimpleNamespace(backends=("triton",), knows=lambda kernels: False))
    assert [config.all_kwargs() for config in hook(configs, {"x": HALVES, "M": 100})] == [
        config.all_kwargs() for config in expected]


def test_a_file_declares_the_users_kernel(tmp_path: Path) -> None:
    from seqtune.kernels.declaration import to_json

    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"kernels": [to_json(declared())]}))
    assert "early_config_prune" in st.prune(kernel=path, M="M")
    path.write_text(json.dumps({"kernels": [to_json(declared())] * 2}))
    with pytest.raises(MisuseError, match="declares 2 kernels"):
        st.prune(kernel=path, M="M")


def test_the_declaration_in_the_guide_is_complete(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "guides" / "triton.md").read_text()
    text, = re.findall(r"^```json\n(.*?)^```$", page, re.M | re.S)
    (tmp_path / "mine.json").write_text(text)
    hook = st.prune(kernel=tmp_path / "mine.json", device="triton:h200", M="M", N="N")["early_config_prune"]
    configs = [triton.Config({"BLOCK_M": size, "BLOCK_N": 64}) for size in (32, 64)]
    (config,) = hook(configs, ARGUMENTS)
    assert (config.kwargs, config.num_warps, config.num_stages) == ({"BLOCK_M": 64, "BLOCK_N": 64}, 4, 3)


@needs_listener
def test_every_benchmarked_configuration_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[object] = []
    with stub_gpu(monkeypatch):
        monkeypatch.setattr(triton.knobs.autotuning, "listener", lambda **benchmark: heard.append(benchmark["key"]))
        before = triton.knobs.autotuning.listener
        with st.record(tmp_path / "j.sqlite", keys={"scale": ["M"]}, device="triton:h200") as recording:
            tuned(7)
            tuned(9)
        assert triton.knobs.autotuning.listener is before
        tuned(11)
    assert (len(heard), recording.written) == (3, 6)
    with Journal(tmp_path / "j.sqlite") as journal:
        records = list(journal.records())
        assert [device.name for device in journal.devices().values()] == ["triton:h200"]
    assert {record.problem.key for record in records} == {
        f"recorded M={m} dtype=float16 kernel=scale key_1=24" for m in (7, 9)}
    assert records[0].configuration.settings == (("BLOCK", 32), ("num_warps", 2), ("num_stages", 3))
    assert [record.measurement.seconds for record in records[:2]] == pytest.approx([0.5e-3, 0.25e-3])
    assert [record.measurement.status for record in records[:3]] == [Status.CORRECT, Status.CORRECT, Status.RUNTIME]


def test_a_folder_written_by_triton_itself_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton.knobs.cache, "dir", str(tmp_path / "cache"))
    with stub_gpu(monkeypatch):
        tuned(7, cache_results=True)
        tuned(9, cache_results=True)
    assert TRITON.read is not None
    from seqtune.data.formats.table import find_files

    data = TRITON.read(find_files("triton", [tmp_path / "cache"]), ["triton:h200"]).data
    data.write(tmp_path / "data.parquet")
    rows = Dataset.read(tmp_path / "data.parquet").rows
    assert len(rows) == 6
    assert sorted(set(rows["seconds"].astype(float))) == pytest.approx([0.25e-3, 0.5e-3, float("inf")])
