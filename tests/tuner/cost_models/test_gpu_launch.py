"""Launches: what configurations ask for, by declared quantities or a convention, and the penalty for another maker."""

from __future__ import annotations

import numpy as np
import pytest

from seqtune.kernels.devices.device import Device
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Constraint, Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.cost_models.gpu_launch import launches_of, penalty
from tests.support.tasks import task_of

DEVICE = Device("recorded:A100", "recorded", "nvidia", "none", model="NVIDIA A100-PCIE-40GB")
PROBLEM = Problem.make("recorded", kernel="k", size_x=1000, size_y=64)


def space(parameters: dict[str, tuple[int | str, ...]], derived: dict[str, str] | None = None) -> SearchSpace:
    """The space of a recorded kernel."""
    kernel = Kernel("recorded.k", "recorded", ("recorded",),
                    tuple(Parameter(name, values) for name, values in parameters.items()),
                    (Constraint.of("1 == 1", "always"),), (),
                    derived=tuple((name, Expression(text)) for name, text in (derived or {}).items()))
    return SearchSpace(kernel, PROBLEM, DEVICE)


def test_kernel_tuners_names_give_threads_work_and_overhang() -> None:
    launches = launches_of(space({"block_size_x": (10, 32), "block_size_y": (4,), "tile_size_x": (1, 2)}))
    assert launches is not None
    np.testing.assert_array_equal(launches.block_threads, [40, 40, 128, 128])
    np.testing.assert_array_equal(launches.thread_work, [1, 2, 1, 2])
    np.testing.assert_allclose(launches.padded_share, [1, 1, 1.024, 1.024])
    np.testing.assert_allclose(launches.idle_lanes(32), [0.375, 0.375, 0, 0])
    np.testing.assert_allclose(launches.idle_lanes(64), [0.375, 0.375, 0, 0])


def test_clblasts_names_give_threads_and_work() -> None:
    launches = launches_of(space({"MWG": (64,), "NWG": (32, 128), "MDIMC": (8,), "NDIMC": (16,)}))
    assert launches is not None
    np.testing.assert_array_equal(launches.block_threads, [128, 128])
    np.testing.assert_array_equal(launches.thread_work, [16, 64])


@pytest.mark.parametrize("parameters", [{"a": (1, 2)}, {"block_size_x": ("small", "large")}])
def test_a_kernel_of_other_names_has_no_launches_and_no_penalty(parameters: dict[str, tuple[int | str, ...]]
                                                                      ) -> None:
    other = space(parameters)
    assert launches_of(other) is None
    assert not penalty(task_of(other), 32).any()


def test_the_penalty_grows_with_work_guards_and_idle_lanes() -> None:
    searched = space({"block_size_x": (10, 20, 32, 100), "tile_size_x": (1, 2, 4)})
    added = penalty(task_of(searched), 32)
    at = {(configuration["block_size_x"], configuration["tile_size_x"]): value
          for configuration, value in zip(searched, added.tolist(), strict=True)}
    assert at[10, 1] < at[10, 2] < at[10, 4]  # work
    assert at[100, 1] < at[32, 1]  # 32 does not divide 1000
    assert at[20, 1] < at[10, 1]  # of 32 lanes 12 or 22 are idle
