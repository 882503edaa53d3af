"""Ctrl-C while XGBoost works is delivered once, at a place where an exception can pass."""

import os
import signal
from collections.abc import Callable

import numpy as np
import pytest
from xgboost.data import SingleBatchInternalIter

from seqtune.tuner.cost_models.boosting import Boosting

SETTINGS = Boosting("reg:squarederror", rounds=4, depth=2, rate=0.3)
ROWS = np.arange(40, dtype=np.float32).reshape(20, 2)


@pytest.fixture
def interrupted_callback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes while XGBoost, in compiled code, asks Python for the rows."""
    give = SingleBatchInternalIter.next

    def give_and_interrupt(rows: SingleBatchInternalIter, input_data: Callable[..., object]) -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        return give(rows, input_data)

    monkeypatch.setattr(SingleBatchInternalIter, "next", give_and_interrupt)


@pytest.mark.usefixtures("interrupted_callback")
def test_ctrl_c_while_the_data_are_handed_over_stops_the_training() -> None:
    with pytest.raises(KeyboardInterrupt):
        SETTINGS.grow_several(ROWS, ROWS[:, 0], None, 3)


@pytest.mark.usefixtures("interrupted_callback")
def test_a_handler_that_raises_nothing_leaves_the_trees_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    former = signal.signal(signal.SIGINT, lambda number, frame: calls.append(number))
    try:
        grown = SETTINGS.grow(ROWS, ROWS[:, 0]).save_raw("json")
    finally:
        signal.signal(signal.SIGINT, former)
    monkeypatch.undo()
    assert set(calls) == {signal.SIGINT}
    assert grown == SETTINGS.grow(ROWS, ROWS[:, 0]).save_raw("json")
