"""The plain mean of experts: each counts the same, whatever constant an opinion lacks, and one may know nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from seqtune.errors import MisuseError
from seqtune.kernels.kernel import Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats, Task
from seqtune.predictor.experts.expert import ask
from tests.support.synthetic import WIDE

KERNEL = Kernel("toy.plain", "gemm", ("fake",), (Parameter("tile", (1, 2, 4, 8)),), (), ())
TASK = Task.of(Problem.make("gemm", m=8, n=8, k=8), WIDE, (KERNEL,))
NUMBERS = np.arange(2)


@dataclass(frozen=True)
class Says:
    """An expert that says the same of every task."""

    name: str
    opinions: list[list[float]] | None
    is_relative: bool = False

    def opinion(self, task: Task, numbers: Numbers) -> Floats | None:
        return None if self.opinions is None else np.array(self.opinions)


TREES = Says("trees", [[0.0, 0.0], [0.1, 0.3]])


def test_experts_count_equally_whatever_their_members_and_the_constant_of_a_relative_one() -> None:
    said = ask([TREES, Says("judge", [[7.4], [7.0]], is_relative=True)], TASK, NUMBERS)
    assert said.slowness == pytest.approx([0.15, 0.05])
    assert said.members is not None
    assert said.members.shape == (2, 3)
    assert said.by_expert["judge"][:, 0] == pytest.approx([0.3, -0.1])


def test_without_an_opinion_the_slowness_is_unknown() -> None:
    for experts in ([], [Says("trees", None)]):
        said = ask(experts, TASK, NUMBERS)
        assert np.isnan(said.slowness).all()
        assert said.members is None
    assert ask([TREES], TASK, NUMBERS[:0]).slowness.tolist() == []


@pytest.mark.parametrize("opinions", [[[0.1]], [[0.1], [np.nan]], [0.1, 0.2]])
def test_an_opinion_that_cannot_count_is_refused_with_the_experts_name(opinions: list[list[float]]) -> None:
    with pytest.raises(MisuseError, match=r"the expert odd gave an opinion of shape .* it must be finite and have 2"):
        ask([TREES, Says("odd", opinions)], TASK, NUMBERS)
