"""gemlite's tuned configurations: JSON files and tables, and the rows that are left out."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from seqtune.__main__ import main
from seqtune.data.dataset import Dataset
from seqtune.data.formats.table import format_of
from seqtune.data.record import Status
from seqtune.errors import MisuseError, SeqtuneError
from tests.support.winner_files import GEMLITE, public_table, write_gemlite


def read(path: Path, *devices: str) -> tuple[Dataset, dict[str, int]]:
    """The data set of a file, and the numbers of its rows that were left out, by reason."""
    reader = format_of("gemlite", "read").read
    assert reader is not None
    result = reader([path], devices)
    return result.data, result.reports[0]["skipped"]


def left_out(tmp_path: Path, kernel: str, key: str, **changed: object) -> str:
    """The reason why the sample of a kernel is refused with another key or setting."""
    settings = GEMLITE[kernel].get(key, next(iter(GEMLITE[kernel].values())))
    with pytest.raises(SeqtuneError) as refusal:
        read(write_gemlite(tmp_path / "h100.json", {kernel: {key: {**settings, **changed}}}))
    return str(refusal.value)


def test_a_file_becomes_choices_for_the_gpu_that_it_is_named_after(tmp_path: Path) -> None:
    data, skipped = read(write_gemlite(tmp_path / "h100.json"))
    assert skipped == {}
    assert [device.name for device in data.devices.values()] == ["triton:h100"]
    assert set(data.rows["status"]) == {Status.CHOSEN.value}
    rows = {(row.kernel, row.problem): json.loads(str(row.configuration)) for row in data.rows.itertuples()}
    assert len(rows) == 5
    problem = next(problem for problem in data.known_problems.values() if problem["m"] == 1024)
    assert problem.brief() == (
        "quantized_gemm m=1024 n=4096 k=4096 dtype=fp16 weight_dtype=int4 packed=8 scale_n=1 scale_k=128")
    assert rows["gemlite.gemm", problem.key] == {
        "BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "A_load_order": 2, "num_warps": 4, "num_stages": 4,
        "waves_per_eu": 0}


def test_a_file_of_another_name_needs_the_gpu_and_a_table_names_them(tmp_path: Path) -> None:
    path = write_gemlite(tmp_path / "mine.json")
    with pytest.raises(MisuseError, match=r"mine\.json does not name its GPU; name it, for example --device h100"):
        read(path)
    assert [device.name for device in read(path, "triton:a100")[0].devices.values()] == ["triton:a100"]
    (key, settings), *_ = GEMLITE["GEMM"].items()
    numbers = dict(zip(("m", "n", "k", "group", "elements", "type_id"), map(int, key[1:-1].split(", ")), strict=True))
    table = pd.DataFrame([{"gpu": gpu, "kernel": "GEMM", **numbers, **settings, "SPLIT_K": float("nan")}
                          for gpu in ("NVIDIA H100", "NVIDIA A100", "NVIDIA RTX 9999")])
    table.to_parquet(tmp_path / "all.parquet")
    data, skipped = read(tmp_path / "all.parquet")
    assert {device.model for device in data.devices.values()} == {"NVIDIA H100", "NVIDIA A100"}
    assert skipped == {"no facts are known here of the GPU": 1}
    with pytest.raises(MisuseError, match="names its GPUs"):
        read(tmp_path / "all.parquet", "h100")
    table.drop(columns="group").to_parquet(tmp_path / "less.parquet")
    with pytest.raises(SeqtuneError, match="it has 0 columns 'group'"):
        read(tmp_path / "less.parquet")


def test_what_gemlites_tuner_never_tries_is_left_out_with_its_reason(tmp_path: Path) -> None:
    packed, plain = GEMLITE["GEMM"]
    assert "a stage has one scale" in left_out(tmp_path, "GEMM", packed, BLOCK_SIZE_K=256)
    assert "four stages" in left_out(tmp_path, "GEMM", packed, num_stages=5)
    assert "higher than the result" in left_out(tmp_path, "GEMM", plain, BLOCK_SIZE_M=256)
    assert "three stages" in left_out(tmp_path, "GEMM", packed, num_stages=3)
    assert "unpacked weights" in left_out(tmp_path, "GEMM", plain, num_stages=1)
    assert "without GROUP_SIZE_M=4" in left_out(tmp_path, "GEMM", plain, GROUP_SIZE_M=4)
    assert "not one of the kernel's values" in left_out(tmp_path, "GEMM", plain, num_warps=16)
    assert "is not a whole number" in left_out(tmp_path, "GEMM", plain, num_warps="4")
    split, = GEMLITE["GEMM_SPLITK"]
    assert "whole stages" in left_out(tmp_path, "GEMM_SPLITK", split.replace("4096, 64", "4160, 64"))
    reverse, = GEMLITE["GEMV_REVSPLITK"]
    assert "both slices" in left_out(tmp_path, "GEMV_REVSPLITK", reverse, BLOCK_SIZE_K=128)
    vector, = GEMLITE["GEMV_SPLITK"]
    assert "1024 to 32768" in left_out(tmp_path, "GEMV_SPLITK", vector, BLOCK_SIZE_K=512)


def test_other_kernels_keys_and_types_are_counted(tmp_path: Path) -> None:
    key, settings = next(iter(GEMLITE["GEMM"].items()))
    _, skipped = read(write_gemlite(tmp_path / "h100.json", {
        "GEMM": {key: settings, "(1, 2)": settings, key.replace("104", "9904"): settings,
                 key.replace("8, 104", "1, 316"): settings, "(3, 4)": 5},
        "ATTENTION": {key: settings}}))
    assert skipped == {"a key that is not (m, n, k, group, elements, type)": 2, "the types 9904 are not known here": 1,
                       "the types 316 are not known here": 1,
                       "no kernel 'ATTENTION' of gemlite is declared": 1}


def test_the_command_writes_a_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = write_gemlite(tmp_path / "h100.json"), tmp_path / "choices.parquet"
    assert main(["import", "gemlite", str(path), "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["records"] == len(Dataset.read(out)) == 5


def test_every_public_winner_is_in_its_space() -> None:
    data, skipped = read(public_table("gemlite.parquet"))
    assert skipped == {}
    assert len(data) > 8_000
