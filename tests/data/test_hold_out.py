"""Problems that a user holds out: by a set or a file, by a condition on features, or by a share."""

from __future__ import annotations

import pytest

from seqtune.data.hold_out import held_out_keys
from seqtune.errors import MisuseError
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.networks import network
from seqtune.kernels.problem_sets.similarity import near, near_groups

FAR = [Problem.make("gemm", m=2**power, n=64, k=64) for power in range(20)]
CHAIN = [Problem.make("gemm", m=100 + 10 * step, n=64, k=64) for step in range(20)]  # each is near the next


def test_groups_hold_what_is_near_from_one_to_the_next() -> None:
    other = Problem.make("gemm", m=100, n=64, k=64, trans_b="yes")
    unknown = Problem.make("conv2d", c=64, h=None, w=None, k=64, r=3, s=3)
    layers = [Problem.make("conv2d", c=64, h=size, w=size, k=64, r=3, s=3) for size in (14, 28)]
    groups = near_groups([*CHAIN, *FAR[:3], other, layers[0], unknown, layers[1]])
    assert groups == [CHAIN, *([problem] for problem in FAR[:3]), [other], [layers[0], unknown, layers[1]]]
    problems = network("resnet50")
    groups = near_groups(problems)
    assert sorted(problem.key for group in groups for problem in group) == sorted(problem.key for problem in problems)
    for index, group in enumerate(groups):
        assert not any(near(own, other) for own in group for rest in groups[index + 1:] for other in rest)


@pytest.mark.parametrize("name", ["20%", "20 %", "0.2", ".2"])
def test_a_share_is_drawn_from_groups_the_same_each_time(name: str) -> None:
    keys = held_out_keys([*FAR, *CHAIN[:5]], [name])[name]
    assert len(keys) == 5
    assert keys == held_out_keys([*CHAIN[:5], *reversed(FAR)], [name])[name]
    held_out = [problem for problem in (*FAR, *CHAIN[:5]) if problem.key in keys]
    assert not any(near(own, other) for own in held_out for other in (*FAR, *CHAIN[:5]) if other.key not in keys)


@pytest.mark.parametrize("name", ["0%", "0.0", "100%", "1.0", "150 %"])
def test_nothing_and_everything_are_no_shares(name: str) -> None:
    with pytest.raises(MisuseError, match=f"{name} of the problems cannot be held out; give a share between 0 and 1"):
        held_out_keys(FAR, [name])


def test_a_condition_holds_out_the_problems_with_all_its_features() -> None:
    problems = [Problem.make("gemm", m=m, n=n, k=8, dtype=dtype)
                for m in (16, 32) for n in (16, 32) for dtype in ("fp32", "fp16")]
    keys = held_out_keys(problems, ["m=16 dtype=fp16"])["m=16 dtype=fp16"]
    assert keys == {problem.key for problem in problems if problem["m"] == 16 and problem["dtype"] == "fp16"}
    assert not held_out_keys(problems, ["m=17"])["m=17"]
    with pytest.raises(MisuseError, match="no problem has the feature 'experts'; there are m, n, k"):
        held_out_keys(problems, ["experts=64"])
    for text in ("m=16 fp16", "gemm m=16"):
        with pytest.raises(MisuseError, match=r"is no condition: .*experts=64; a named set .*, a file .* or a share"):
            held_out_keys(problems, [text])
    with pytest.raises(MisuseError, match="names m twice"):
        held_out_keys(problems, ["m=16 m=32"])
