"""Our strategies inside Kernel Tuner: the seam with a stand-in, and the real package in simulation mode."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqtune.errors import MisuseError, UnavailableError
from seqtune.kerneltuner import search, space_of, strategy
from seqtune.tuner.strategies.local import Local
from seqtune.tuner.strategies.random import Random
from tests.support.recorded_files import CONFIGURATIONS, RESTRICTIONS, VALUES, milliseconds, write_cache

INSTALLED = importlib.util.find_spec("kernel_tuner") is not None


class Searchspace:
    """The part of Kernel Tuner's search space that the strategy uses."""

    tune_params = VALUES

    def __init__(self) -> None:
        self.list = list(CONFIGURATIONS)
        random.Random(0).shuffle(self.list)


class Stop(Exception):
    """Kernel Tuner's StopCriterionReached."""


class CostFunc:
    """Milliseconds, as Kernel Tuner's cost function returns them; the largest number for failures."""

    def __init__(self, most: int | None, sign: int = 1) -> None:
        self.tuning_options = {} if most is None else {"max_fevals": most}
        self.most, self.sign = most, sign
        self.called: list[tuple[int, ...]] = []

    def __call__(self, given: tuple[int, ...]) -> float:
        if len(self.called) == self.most:
            raise Stop
        self.called.append(given)
        block, tile, order, _ = given
        if block == 16:
            return sys.float_info.max
        time = milliseconds(block, tile, order)
        return time if self.sign > 0 else -1 / time


def test_every_configuration_that_is_asked_for_is_one_of_theirs_and_asked_once() -> None:
    func = CostFunc(None)
    best = search(func, Searchspace(), Random)
    assert sorted(func.called) == sorted(CONFIGURATIONS)
    assert best == ((64, 2, 1, 7), 1.0)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_strategy_learns_from_what_it_is_told_whatever_is_optimised(sign: int) -> None:
    """Local search spends half on the climb from the best: what it asks for then is that one's neighbours."""
    func = CostFunc(10, sign)
    with pytest.raises(Stop):
        search(func, Searchspace(), Local, seed=1)
    best = min((one for one in func.called[:5] if one[0] != 16), key=lambda one: milliseconds(one[0], one[1], one[2]))
    assert sum(a != b for a, b in zip(func.called[5], best, strict=True)) == 1


def test_values_of_any_kind_become_a_space() -> None:
    values: dict[str, list[Any]] = {"p": [0.5, 1.0, 2.0], "q": ["row", "column"], "r": [True, False],
                                    "s": [np.int64(3)]}
    listed = [(2.0, "row", False, 3), (0.5, "column", True, 3)]
    space = space_of(values, listed)
    assert [one.brief() for one in space] == ["p=0.5 q=column r=1 s=3", "p=2 q=row r=0 s=3"]


def test_what_cannot_be_had_is_said() -> None:
    with pytest.raises(MisuseError, match="no strategy 'magic'"):
        strategy("magic")
    with pytest.raises(MisuseError, match="seed"):
        strategy("random", seed=-1)
    if not INSTALLED:
        with pytest.raises(UnavailableError, match="pip install kernel_tuner"):
            strategy("random")


@pytest.mark.filterwarnings("ignore:None of the tunable parameters specify thread block dimensions")
@pytest.mark.skipif(not INSTALLED, reason="Kernel Tuner is not installed (it is in the extra `dev`)")
def test_kernel_tuner_searches_by_our_strategies_in_simulation_mode(tmp_path: Path) -> None:
    from kernel_tuner import tune_kernel

    path = write_cache(tmp_path / "cache.json")
    for name, trials in (("random", 6), ("portfolio", 12)):
        results, _ = tune_kernel(
            "toy", "__global__ void something() {}", (640, 480), [], VALUES, lang="CUDA", restrictions=RESTRICTIONS,
            strategy=strategy(name, seed=3), strategy_options={"max_fevals": trials}, cache=str(path),
            simulation_mode=True, quiet=True)
        found = [tuple(result[parameter] for parameter in VALUES) for result in results]
        assert len(found) == len(set(found)) == trials
        assert set(found) <= set(CONFIGURATIONS)
