"""A dispatch in Triton: its file in place of a checkpoint of `prune`, and `heuristics` under Triton's own decorator."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqtune.errors import MisuseError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.predictor.answering import Answering, answering
from tests.support.devices import described_gpu
from tests.support.dispatchers import by_size, changed, saved

triton: Any = pytest.importorskip("triton", reason="Triton is not installed (Linux only): make develop")

import seqtune.triton as st  # noqa: E402

GPU = "triton:h200"
NVIDIA = {"matrix_instr_nonkdim": 0, "waves_per_eu": 0, "kpack": 1, "GROUP_M": 1}
SIZES: dict[str, Any] = {"m": "M", "n": "N", "k": "K"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    members = [changed("triton.gemm", **NVIDIA, BLOCK_M=block, BLOCK_N=64, num_warps=4) for block in (16, 128)]
    return saved(tmp_path, by_size("m", 64, members, described_gpu("triton", "h200"), "m=1..4096", "n=64..4096",
                                   "k=64..4096", "dtype=fp16"))


def arguments(m: int) -> dict[str, Any]:
    return {"a": np.zeros(2, np.float16), "M": m, "N": 1024, "K": 256}


def test_prune_takes_the_file_of_a_dispatch(file: Path) -> None:
    prune = st.prune("gemm", **SIZES, device=GPU, checkpoint=file)["early_config_prune"]
    assert [prune(st.space("gemm"), arguments(m))[0].kwargs["BLOCK_M"] for m in (32, 512)] == [16, 128]


def test_heuristics_give_every_parameter_of_a_launch(file: Path) -> None:
    launches: list[dict[str, Any]] = []

    class Kernel:
        arg_names = ("a", "M", "N", "K")

        def run(self, *given: Any, **options: Any) -> None:
            launches.append(options)

    values = st.heuristics(file, **SIZES, device=GPU, names={"BLOCK_M": "TILE_M"})
    kernel = triton.heuristics(values)(Kernel())
    for m in (32, 512, 32):
        kernel.run(*arguments(m).values())
    assert [launch["TILE_M"] for launch in launches] == [16, 128, 16]
    assert launches[0].keys() == {"TILE_M", "BLOCK_N", "BLOCK_K", "GROUP_M", "SPLIT_K", "num_warps", "num_stages"}
    assert launches[0]["num_warps"] == 4


def test_another_gpu_is_asked_anew(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from seqtune.hooks import asking

    asked: list[str] = []

    def answer(problem: Problem, device: Device, checkpoint: Path) -> Answering:
        asked.append(device.name)
        return answering(problem, device, checkpoint)

    gpus = [described_gpu("triton", name) for name in ("h200", "a100", "h200", "a100")]
    names = [gpu.name for gpu in gpus]
    monkeypatch.setattr(asking, "running_device", lambda given: gpus.pop(0))
    monkeypatch.setattr(import_module("seqtune.integrations.triton.hook.heuristics"), "answering", answer)
    setting = st.heuristics(file, **SIZES)["BLOCK_M"]
    for _ in names:
        assert setting(arguments(512)) == 128
    assert asked == names[:2]


def test_arguments_that_can_never_work_are_refused_at_once(file: Path) -> None:
    with pytest.raises(MisuseError, match="gemm has no feature 'rows'"):
        st.heuristics(file, rows="M")
    with pytest.raises(MisuseError, match=r"cannot read nothing\.json"):
        st.heuristics("nothing.json", m="M")
