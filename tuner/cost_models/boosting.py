"""Boosting: boosted trees (XGBoost) of cost models, the teacher and models of labels; Ctrl-C waits for a tree's end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

RANKING = "rank:pairwise"

IsOver = Callable[[], bool]  # whether a training must end
# The gradient and the second derivatives (row,) of an objective of one's own by the predictions (row,), and xgboost's
# matrix of the rows
Objective = Callable[[NDArray[np.float32], Any], tuple[NDArray[np.float64], NDArray[np.float64]]]


def never() -> bool:
    """A training ends with its last tree."""
    return False


@dataclass(frozen=True, slots=True)
class Boosting:
    """The settings of one training of boosted trees. The same settings, rows and seed give the same trees."""

    objective: str  # xgboost's name; with RANKING all rows form one group
    rounds: int  # trees; for a classifier, trees of each class
    depth: int  # maximum depth of a tree
    rate: float  # learning rate
    subsample: float = 0.8  # share of the rows that each tree is fitted on
    columns: float = 0.6  # share of the features that each tree may use
    least_weight: float = 1.0  # minimum weight of a leaf
    bins: int = 128  # maximum number of thresholds tried for a feature
    threads: int = 1
    seed: int = 0
    more: Mapping[str, Any] = field(default_factory=dict)  # settings of the objective, under xgboost's names

    @property
    def settings(self) -> dict[str, Any]:
        """The settings under xgboost's names."""
        return {"objective": self.objective, "max_depth": self.depth, "eta": self.rate, "subsample": self.subsample,
                "colsample_bytree": self.columns, "min_child_weight": self.least_weight, "max_bin": self.bins,
                "nthread": self.threads, "seed": self.seed, "tree_method": "hist", "verbosity": 0, **self.more}

    def grow(self, rows: NDArray[np.float32], target: NDArray[Any], weights: NDArray[np.float64] | None = None,
             before: xgboost.Booster | None = None, is_over: IsOver = never,
             own: Objective | None = None) -> xgboost.Booster:
        """Fit one booster. Shapes: `rows` (row, feature), `target` (row,), `weights` (row,), None for equal weights.

        The objective `own` replaces the named one in the fitting, and not in what is predicted.

        The trees of `before` come first, and the new ones are fitted to what they leave. An interrupt is delivered at
        the end of a tree, and the tree after which `is_over` is the last one.
        """
        if before is None:
            return self.grow_several(rows, target, weights, 1, is_over, own)[0]
        with HeldInterrupts() as interrupts:
            # not a QuantileDMatrix: thresholds of `before` need not be among its bins
            matrix = xgboost.DMatrix(rows, target, weight=weights, nthread=self.threads)
            return xgboost.train(self.settings, matrix, self.rounds, xgb_model=before, obj=own,
                                 callbacks=[_EndOfTree(interrupts, is_over)])

    def grow_several(self, rows: NDArray[np.float32], target: NDArray[Any], weights: NDArray[np.float64] | None,
                     count: int, is_over: IsOver = never, own: Objective | None = None) -> list[xgboost.Booster]:
        """Fit `count` boosters on the same rows, with the seeds `seed`, `seed` + 1, ...; see `grow`."""
        with HeldInterrupts() as interrupts:
            if self.objective == RANKING:
                matrix = xgboost.DMatrix(rows, target, nthread=self.threads)
                matrix.set_group([len(rows)])
            else:
                matrix = xgboost.QuantileDMatrix(rows, target, weight=weights, max_bin=self.bins, nthread=self.threads)
            return [xgboost.train({**self.settings, "seed": self.seed + number}, matrix, self.rounds, obj=own,
                                  callbacks=[_EndOfTree(interrupts, is_over)]) for number in range(count)]


class HeldInterrupts:
    """A context in which SIGINT is only noted until `deliver`, or the end of the context, hands it to its handler.

    Python delivers SIGINT between two instructions, also inside a function that a library called through ctypes. There
    the KeyboardInterrupt cannot reach the caller: it is printed and lost, and the library goes on with data that were
    never passed to it.

    Contexts may be nested. Where no Python function handles SIGINT, and outside the main thread, where Python runs no
    handlers, there is nothing to hold.
    """

    def __init__(self) -> None:
        self._noted: tuple[int, FrameType | None] | None = None
        self._handler: Any = None  # the handler that is replaced; None if there is nothing to hold

    def __enter__(self) -> HeldInterrupts:
        handler = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread() and callable(handler):
            self._handler = handler
            signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted = number, frame

    def deliver(self) -> None:
        """Hand an interrupt that has come to its handler, which usually raises KeyboardInterrupt."""
        noted, self._noted = self._noted, None
        if noted is not None:
            self._handler(*noted)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
            self.deliver()


class _EndOfTree(xgboost.callback.TrainingCallback):
    """Delivers an interrupt that came while a tree was fitted; XGBoost calls this from Python."""

    def __init__(self, interrupts: HeldInterrupts, is_over: IsOver) -> None:
        self._interrupts, self._is_over = interrupts, is_over

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Whether the training is to end before its last tree."""
        self._interrupts.deliver()
        return self._is_over()
