"""GPUs that are not here: predictions by the analytic model, and how they are shown."""

from __future__ import annotations

import pytest

import seqtune
from seqtune.errors import CheckpointError, DeviceError, KernelError
from seqtune.kernels.registry import kernel, names
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


def test_the_answer_loads_neither_torch_nor_a_gpu_compiler() -> None:
    loaded = loaded_after(f"import seqtune; seqtune.predict({GEMM!r}, 'cuda:h200')")
    assert loaded <= {"numpy", "llvmlite"}  # which compiles the sums of trees for this CPU


def test_every_gpu_that_is_listed_has_a_kernel_that_can_be_compiled_for_it() -> None:
    listed = seqtune.devices(described=True).described
    listed_names = {device.name for device in listed}
    assert {"cuda:t4", "cuda:b200", "triton:h200", "triton:mi300x"} <= listed_names
    assert listed_names.isdisjoint({"triton:t4", "triton:b200", "triton:w6600", "triton:w7800"})
    families = [kernel(name) for name in names()]
    assert all(any(family.implementation is not None and family.is_for(device) for family in families)
               for device in listed)


def test_a_convolution_for_triton_on_an_amd_gpu_is_refused_with_the_device_of_miopen() -> None:
    for name, hint in (("triton:mi300x", r"; MIOpen's can be predicted \(--device miopen:gfx942_304\)$"),
                       ("triton:h100", r"--device cuda:0\)$")):
        with pytest.raises(KernelError, match=hint):
            seqtune.predict("conv2d c=64 h=28 w=28 k=64 r=3 s=3", name)
