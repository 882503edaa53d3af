"""Our strategies inside Kernel Tuner: the seam with a stand-in, and the real package in simulation mode."""

from __future__ import annotations

import json
import random
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from seqtune.api import exchanging as exchange
from seqtune.data.dataset import Dataset
from seqtune.data.measured_tasks import measured_tasks
from seqtune.errors import CheckpointError, FormatError, MisuseError, UnavailableError, is_installed
from seqtune.integrations.kernel_tuner.hook.strategy import WarmStart, search, warm_start
from seqtune.kerneltuner import strategy
from seqtune.predictor.learning.tasks.training import train_model
from seqtune.tuner.strategies.local import Local
from seqtune.tuner.strategies.portfolio import Portfolio
from seqtune.tuner.strategies.random import Random
from tests.support.command_line import Refused
from tests.support.installation.optional import needs
from tests.support.learning.short_training import QUICK
from tests.support.recorded_files import CONFIGURATIONS, RESTRICTIONS, VALUES, cache, milliseconds, write_cache

INSTALLED = is_installed("kernel_tuner")


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


def test_what_cannot_be_had_is_said() -> None:
    with pytest.raises(MisuseError, match="no strategy 'magic'"):
        strategy("magic")
    with pytest.raises(MisuseError, match="seed"):
        strategy("random", seed=-1)
    if not INSTALLED:
        with pytest.raises(UnavailableError, match="pip install kernel_tuner"):
            strategy("random")


SIZES = (100, 200, 400, 800, 1600, 3200)


def caches(folder: Path, size: object = None) -> list[Path]:
    """Caches of one kernel for problems of several sizes; `fixed` is the width of the problem's rows."""
    paths = []
    for number in SIZES:
        content = cache()
        content["problem_size"] = [number, 480] if size is None else size
        content["tune_params"] = {**VALUES, "fixed": [number]}
        for entry in content["cache"].values():
            entry["fixed"] = number
        paths.append(folder / f"{number}.json")
        paths[-1].write_text(json.dumps(content))
    return paths


def runner(width: int, kernel: str = "toy") -> Any:
    """The part of Kernel Tuner's runner that says what is tuned."""
    return SimpleNamespace(kernel_options={"kernel_name": kernel, "problem_size": (width, 480)},
                           dev=SimpleNamespace(name="The Fast One"))


class NewSearchspace(Searchspace):
    """The space of a problem that no cache holds, with a value that no cache has."""

    def __init__(self) -> None:
        super().__init__()
        self.tune_params = {**VALUES, "tile": [*VALUES["tile"], 8], "fixed": [1000]}
        self.list = [(block, tile, order, 1000) for block, tile, order, _ in self.list] + [(32, 8, 1, 1000)]


@pytest.fixture(name="checkpoint", scope="module")
def _checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("caches")
    exchange.import_data("kernel-tuner", caches(folder), folder / "caches.parquet", keys=("fixed",))
    tasks = measured_tasks(Dataset.read(folder / "caches.parquet"), held_out=False)
    trained, _ = train_model(tasks, [], replace(QUICK, epochs=2, validation=0.0))
    return trained.save(folder / "checkpoint")


def test_a_checkpoint_of_caches_proposes_first_and_then_the_search_goes_on(checkpoint: Path) -> None:
    func: Any = CostFunc(None)
    func.runner = runner(1000)
    warm = warm_start("portfolio", checkpoint, proposals=3)
    assert warm is not None
    space = NewSearchspace()
    proposed = warm.proposals(space.tune_params, space.list, func.runner)
    assert len(proposed) == 3
    search(func, space, Portfolio, warm=warm)
    assert [dict(zip(VALUES, called, strict=True)) for called in func.called[:3]] == [
        {**settings, "fixed": 1000} for settings in proposed]
    assert func.called[0] == (64, 2, 1, 1000)  # the best in every cache
    assert len(set(func.called)) == len(func.called) > 3


def test_a_warm_start_that_cannot_be_is_refused_before_the_search(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="the strategy random ignores a checkpoint's proposals"):
        warm_start("random", checkpoint)
    with pytest.raises(MisuseError, match="name one"):
        warm_start("portfolio", None, kernel="toy")
    with pytest.raises(CheckpointError, match="knows no kernel of imported caches"):
        warm_start("portfolio", "default")
    with pytest.raises(FormatError, match="the parameter block has 4 values"):
        exchange.import_data("kernel-tuner", caches(tmp_path), tmp_path / "out.parquet", keys=("block",))
    with pytest.raises(FormatError, match="has neither a parameter nor an entry 'depth'"):
        exchange.import_data("kernel-tuner", caches(tmp_path), tmp_path / "out.parquet", keys=("depth",))
    with pytest.raises(MisuseError, match="is not a list of different names"):
        exchange.import_data("kernel-tuner", caches(tmp_path), tmp_path / "out.parquet", keys=("fixed", "fixed"))


@pytest.mark.filterwarnings("ignore:None of the tunable parameters specify thread block dimensions")
@needs("kernel_tuner")
def test_kernel_tuner_searches_by_our_strategies_in_simulation_mode(checkpoint: Path, tmp_path: Path) -> None:
    from kernel_tuner import tune_kernel

    path = write_cache(tmp_path / "cache.json")
    for chosen, trials in ((strategy("random", seed=3), 6), (strategy("portfolio", seed=3), 12),
                           (strategy("portfolio", checkpoint=checkpoint), 9)):
        results, _ = tune_kernel(
            "toy", "__global__ void something() {}", (640, 480), [], VALUES, lang="CUDA", restrictions=RESTRICTIONS,
            strategy=chosen, strategy_options={"max_fevals": trials}, cache=str(path), simulation_mode=True, quiet=True)
        found = [tuple(result[parameter] for parameter in VALUES) for result in results]
        assert len(found) == len(set(found)) == trials
        assert set(found) <= set(CONFIGURATIONS)
    proposed = WarmStart(checkpoint, "size_x=640 size_y=480 fixed=7", "toy").proposals(VALUES, CONFIGURATIONS, None)
    assert found[:8] == [(*(settings[name] for name in ("block", "tile", "order")), 7) for settings in proposed]


def test_a_prediction_for_a_kernel_of_caches_says_who_can_make_it(checkpoint: Path, refused: Refused) -> None:
    message = refused("predict", "recorded", "kernel=toy", "size_x=500", "--checkpoint", checkpoint)
    assert 'strategy("predictor", checkpoint=...) proposes some' in message
    assert "--library" in message
