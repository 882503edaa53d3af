"""Descriptions of built kernels: README.md and launch.json."""

from __future__ import annotations

import json

from seqtune.kernels.launches.call import (
    BufferArgument,
    Call,
    CallStep,
    LocalArgument,
    NullArgument,
    ScalarArgument,
    TensorMapArgument,
    WorkspaceArgument,
)
from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.linting.kernel import typical_device
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.space import spaces_for
from seqtune.tuner.building.chosen import Chosen
from seqtune.tuner.building.description import described_call, launch_json, readme

PROBLEM = parse_problem("gemm m=64 n=8 k=9")


def chosen(seconds: float | None = None, default: float | None = None) -> Chosen:
    device = typical_device("opencl")
    space = spaces_for(PROBLEM, device)[0]
    return Chosen("product", PROBLEM, device, space.kernel, space[0], "the first proposal", seconds, default)


def test_a_readme_says_what_the_kernel_is_and_how_fast() -> None:
    text = readme([chosen(1e-5, 2e-5)], ["Compile it with `make`."]).decode()
    assert text.startswith("# product\n\n`product`: `opencl.")
    assert "gemm m=64 n=8 k=9" in text
    assert "Measured time: 10.0 us; the kernel's default takes 20.0 us (2.00 times as long)." in text
    assert "\n\nCompile it with `make`.\n\n" in text
    assert "It was not measured." in readme([chosen()], []).decode()
    assert "2 more kernels stand in `launch.json`" in readme([chosen()] * 10, []).decode()


def test_a_call_is_described_with_its_arguments_in_order() -> None:
    weights = BufferArgument("weights", "fp32")
    step = CallStep("multiply", (
        BufferArgument("x", "fp32"), weights, NullArgument("fp32"), WorkspaceArgument("workspace", "fp32", 6),
        ScalarArgument("int32", (7).to_bytes(4, "little")), LocalArgument(32),
        TensorMapArgument(weights, (8, 9), (32,), (8, 1), 64)), (64, 8), (16, 1), 128, 2)
    call = Call(KernelSource("text", ("-D N=1",)), (step,), ("x",))
    part = described_call(call, operation("gemm").tensors(PROBLEM), {"weights": (96, {"packed_by": "pack_weights"})})
    content = json.loads(launch_json([(chosen(), part)]))
    kernel, = content["kernels"]
    assert (kernel["name"], kernel["restored_before_each_launch"]) == ("product", ["x"])
    assert kernel["buffers"]["weights"] == {"role": "input", "type": "fp32", "shape": [9, 8], "elements": 96,
                                            "bytes": 384, "packed_by": "pack_weights"}
    assert kernel["buffers"]["y"]["role"] == "output"
    assert kernel["workspaces"] == {"workspace": {"type": "fp32", "bytes": 24}}
    launch, = kernel["launches"]
    assert (launch["groups"], launch["shared_bytes"], launch["cluster"]) == ([4, 8], 160, 2)
    assert [argument["kind"] for argument in launch["arguments"]] == [
        "buffer", "buffer", "null", "workspace", "scalar", "local", "tensor map"]
    assert launch["arguments"][4]["value"] == 7
