"""Tests of OpenVINO's times of nodes, with a stand-in for OpenVINO."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from benchmarks.networks.case import Case
from benchmarks.networks.peers import node_times
from seqtune.kernels.devices.device import Device


class FakeCompiled:
    """A compiled network of a convolution whose mean is 14 microseconds, then 11, and a ReLU that is never executed."""

    def __init__(self) -> None:
        self.microseconds: Iterator[int] = iter((14, 11))

    def create_infer_request(self) -> FakeCompiled:
        """The compiled network itself."""
        return self

    def infer(self, inputs: Sequence[Any], share_inputs: bool, share_outputs: bool) -> None:
        """Compute nothing."""
        assert share_inputs
        assert share_outputs

    def get_profiling_info(self) -> list[Any]:
        """The means of all calls so far."""
        times = {"conv": timedelta(microseconds=next(self.microseconds)), "relu": timedelta()}
        return [SimpleNamespace(node_name=name, node_type="Convolution", exec_type="brgconv_f32", real_time=time)
                for name, time in times.items()]

    def get_runtime_model(self) -> Any:
        """The graph that is executed."""
        def port(*shape: int) -> Any:
            return SimpleNamespace(get_shape=lambda: list(shape))

        operation = SimpleNamespace(
            get_friendly_name=lambda: "conv", inputs=lambda: [port(1, 3, 8, 8), port(4, 3, 1, 1)],
            outputs=lambda: [port(1, 4, 8, 8)],
            get_rt_info=lambda: {"originalLayersNames": SimpleNamespace(value="node_conv,node_relu")})
        return SimpleNamespace(get_ordered_ops=lambda: [operation])


def test_a_node_has_the_mean_of_its_later_times_its_shapes_and_what_it_covers(tmp_path: Path) -> None:
    device = Device("llvm:avx2:1", "llvm", "x86", "avx2", "AMD EPYC")
    case = Case(torch.nn.ReLU(), [torch.ones(1)], "fp32", device, tmp_path, True)
    row, = node_times(case, runs=5, compile_model=lambda case, **settings: FakeCompiled())
    assert row == {"name": "conv", "type": "Convolution", "kernel": "brgconv_f32",
                   # ten calls of 14, then five of 5
                   "microseconds": pytest.approx(5.0), "inputs": [[1, 3, 8, 8], [4, 3, 1, 1]],
                   "outputs": [[1, 4, 8, 8]], "covers": ["node_conv", "node_relu"]}
