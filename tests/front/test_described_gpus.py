"""Predictions for GPUs that are not here, by the analytic model."""

from __future__ import annotations

import pytest

import seqtune
from seqtune.errors import CheckpointError, DeviceError
from tests.support.interpreter import loaded_after

GEMM = "gemm m=512 n=512 k=512"


def test_a_gpu_that_is_not_here_gets_an_answer_that_says_what_it_rests_on() -> None:
    answer = seqtune.predict(GEMM, "cuda:h200", top=3)
    assert answer.device.name == "cuda:h200"
    assert len({candidate.configuration for candidate in answer.candidates}) == 3
    fields = answer.to_json()
    assert fields["predictor"] == "analytic"
    assert "no measurement of this GPU" in str(fields["note"])


def test_the_analytic_model_can_be_named() -> None:
    assert seqtune.predict(GEMM, "cuda:h200", checkpoint="analytic") == seqtune.predict(GEMM, "cuda:h200")
    with pytest.raises(CheckpointError, match="answers for cuda and triton devices, not for llvm"):
        seqtune.predict(GEMM, "llvm:0", checkpoint="analytic")


def test_an_unknown_gpu_is_refused() -> None:
    with pytest.raises(DeviceError, match="no device 'cuda:h2000'"):
        seqtune.predict(GEMM, "cuda:h2000")


def test_the_answer_loads_neither_torch_nor_a_compiler() -> None:
    loaded = loaded_after(f"import seqtune; seqtune.predict({GEMM!r}, 'cuda:h200')")
    assert loaded <= {"numpy"}
