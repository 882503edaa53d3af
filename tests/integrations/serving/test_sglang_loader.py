"""The files for SGLang are found and accepted by its own loaders, where its wheel is given."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from seqtune.api import serve_files
from seqtune.integrations.serving.formats.request import TOKENS
from seqtune.integrations.serving.formats.table_file import TableFile, read_table
from tests.support.serving.models import write_model
from tests.support.serving.sglang import expert_loader, linear_loader

DEVICE = "NVIDIA H200"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    serve_files(tmp_path / "out", "sglang", model_config=write_model(tmp_path, "deepseek-v3"), device=DEVICE, tp=8,
                triton_version="3.5.1", tokens=(1, 64, 4096))
    return tmp_path / "out"


@pytest.mark.parametrize("version", ["3.5.1", "3.8.0"])  # the files' version, and one whose folder is not there
def test_sglang_finds_the_files_of_experts(folder: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = expert_loader(monkeypatch, DEVICE, version)
    monkeypatch.setenv("SGLANG_MOE_CONFIG_DIR", str(folder))
    for experts in (256, 257):
        for down in (False, True):
            configurations = loader.get_moe_configs(experts, 256, "fp8_w8a8", 128, 128, down_moe=down)
            assert set(configurations) == {1, 64, 4096}
        first, (second, largest) = loader.try_get_optimal_moe_config(
            (experts, 512, 7168), (experts, 7168, 256), 8, "fp8_w8a8", 70, block_shape=[128, 128],
            return_down_config=True)
        assert first["BLOCK_SIZE_M"] == second["BLOCK_SIZE_M"] <= largest
        assert second.pop("USE_TMA") in (True, False)
        assert first.keys() == second.keys() == {"BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M",
                                                 "num_warps", "num_stages"}


def test_sglang_finds_the_files_of_linear_layers(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "linear", tmp_path / "package" / "configs")
    loader = linear_loader(tmp_path / "package", DEVICE)
    for path in (folder / "linear").iterdir():
        file = TableFile.parse(path.name)
        assert loader(file.n, file.k, 128, 128) == read_table(path)[0]
    assert loader(1, 2, 128, 128) is None


def test_sglang_names_plain_files_as_we_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve_files(tmp_path / "out", "sglang", model_config=write_model(tmp_path, "qwen3-moe"), tp=2,
                device="NVIDIA A100-SXM4-80GB")
    loader = expert_loader(monkeypatch, "NVIDIA A100-SXM4-80GB", "3.6.0")
    monkeypatch.setenv("SGLANG_MOE_CONFIG_DIR", str(tmp_path / "out"))
    assert tuple(loader.get_moe_configs(128, 384, None)) == TOKENS
    assert loader.get_moe_configs(128, 768, None) is None
