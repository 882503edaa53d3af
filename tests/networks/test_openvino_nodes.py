"""OpenVINO's times of nodes, with a stand-in for its profile."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from seqtune.networks.openvino_nodes import profiled


class FakeRequest:
    """A convolution whose mean is 14 microseconds over the first ten runs and 11 over all 40, and an idle ReLU."""

    def __init__(self) -> None:
        self.runs = 0

    def infer(self) -> None:
        """Compute nothing."""
        self.runs += 1

    def get_profiling_info(self) -> list[Any]:
        """The means of all runs so far."""
        times = {"conv": timedelta(microseconds={10: 14, 40: 11}[self.runs]), "relu": timedelta()}
        return [SimpleNamespace(node_name=name, real_time=time) for name, time in times.items()]


def test_a_node_has_the_mean_of_its_later_times_and_an_idle_one_is_left_out() -> None:
    request = FakeRequest()
    nodes = profiled(request, request.infer)
    assert [*nodes] == ["conv"]
    assert nodes["conv"][1] == pytest.approx(10e-6)
