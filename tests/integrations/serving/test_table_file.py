"""Names and contents of the files that vLLM and SGLang load."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqtune.errors import FormatError
from seqtune.integrations.serving.formats.table_file import TableFile, read_table, table_text

NAMES = [  # of vLLM, of SGLang
    ("E=8,N=3584,device_name=NVIDIA_H200.json",) * 2,
    ("E=256,N=128,device_name=NVIDIA_A100-SXM4-80GB,dtype=int8_w8a16.json",) * 2,
    ("E=256,N=256,device_name=AMD_Instinct_MI300X,dtype=fp8_w8a8,block_shape=[128,128].json",
     "E=256,N=256,device_name=AMD_Instinct_MI300X,dtype=fp8_w8a8,block_shape=[128, 128].json"),
    ("N=512,K=7168,device_name=NVIDIA_B200,dtype=fp8_w8a8,block_shape=[128,128].json",
     "N=512,K=7168,device_name=NVIDIA_B200,dtype=fp8_w8a8,block_shape=[128, 128].json"),
]
HOSTILE = [
    "../E=8,N=1,device_name=a.json", "E=8,N=1,device_name=../a.json", "E=8,N=1,device_name=a b.json",
    "E=0,N=1,device_name=a.json", "E=8,N=9999999,device_name=a.json", "E=8,N=1,device_name=a,dtype=fp4_w4a4.json",
    "E=8,K=1,device_name=a.json", "N=8,K=1,device_name=a.json", "E=8,N=1,device_name=a.json\n", "", "config.json",
    "E=8,N=1,device_name=a,dtype=fp8_w8a8,block_shape=[0, 128].json", "E=\u0668,N=1,device_name=a.json",
    f"E=8,N=1,device_name={'a' * 300}.json",
]


@pytest.mark.parametrize(("vllm", "sglang"), NAMES)
def test_a_name_says_what_the_file_is_for_in_both_spellings(vllm: str, sglang: str) -> None:
    file = TableFile.parse(vllm)
    assert file == TableFile.parse(sglang)
    assert (file.name("vllm"), file.name("sglang")) == (vllm, sglang)
    problem = file.problem(64, hidden=4096, top_k=2)
    assert TableFile.of(problem, file.device) == file


def test_the_second_product_of_sglang_has_a_file_of_its_own() -> None:
    name = "E=161,N=192,device_name=NVIDIA_GB300,dtype=fp8_w8a8,per_channel_quant=True_down.json"
    file = TableFile.parse(name)
    assert file.name("sglang") == name
    assert file.problem(8)["half"] == "down"
    assert file.problem(8)["per_channel"] == "yes"


@pytest.mark.parametrize(("sizes", "alike"), [
    ("E=256,N=256,device_name=a.json", True), ("E=257,N=256,device_name=a.json", False),
    ("E=161,N=192,device_name=a_down.json", False), ("E=8,N=192,device_name=a_down.json", False),
    ("E=15,N=1408,device_name=a.json", True), ("E=1,N=1408,device_name=a.json", True),
    ("E=8,N=192,device_name=a,dtype=fp8_w8a8,per_channel_quant=True.json", False)])
def test_sglang_alone_looks_for_some_files(sizes: str, alike: bool) -> None:
    file = TableFile.parse(sizes)
    assert (file.is_of("vllm"), file.is_of("sglang")) == (alike, True)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_of_anything_else_is_refused(name: str) -> None:
    with pytest.raises(FormatError):
        TableFile.parse(name)


def test_a_table_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    table = {1: {"BLOCK_SIZE_M": 16, "USE_TMA": 1}, 64: {"BLOCK_SIZE_M": 64, "USE_TMA": 0}}
    path.write_text(table_text(table, "3.6.0"))
    assert read_table(path) == (table, "3.6.0")
    assert '"USE_TMA": true' in path.read_text()


@pytest.mark.parametrize("text", [
    "", "[]", "{}", "{", '{"1": 2}', '{"1": {"a": 1.5}}', '{"1": {"a": "b"}}', '{"-1": {}}', '{"01": {}}',
    '{"x": {}}', '{"1": null}', '{"1": {"a": ' + "9" * 30 + "}}", "[" * 9000])
def test_a_damaged_table_is_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_text(text)
    with pytest.raises(FormatError, match=r"table\.json") as error:
        read_table(path)
    assert "\n" not in str(error.value)
