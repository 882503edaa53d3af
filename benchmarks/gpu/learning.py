"""Learn slice: models trained on the day's training problems and judged on its held-out ones.

Every method chooses among the measured configurations of a held-out problem, without any measurement and with the best
of 3 and of 5. The ceiling is what an oracle reaches that knows every trial, judged by the finals: trials are noisy.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from benchmarks.common.contest import geometric_mean
from benchmarks.gpu.day import Day
from benchmarks.gpu.home import measured_data, of_devices
from benchmarks.gpu.slices import SliceOutcome
from seqtune.data.dataset import Dataset
from seqtune.data.measured_tasks import measured_tasks
from seqtune.errors import CheckpointError, MisuseError, UnavailableError
from seqtune.predictor.answering import predictor_for
from seqtune.predictor.model import answers_for
from seqtune.predictor.times.evaluation import evaluate
from seqtune.predictor.times.training import train
from seqtune.predictor.times.training_options import TrainingOptions

SHARE_OF_TRAINING = 0.7  # of the slice's time; the rest is for judging
METHODS = ("seqtune", "random", "default", "nearest", "trees")  # the best fixed ones take as long as all of these
UNTRAINED = "untrained"  # what is shipped for the backend, before any measurement of this GPU


def retest_ceiling(data: Dataset) -> float | None:
    """The geometric mean over problems with finals of best time / time of the configuration with the best trial."""
    shares = []
    for _, rows in data.rows[data.rows["status"] == "correct"].groupby("problem", observed=True):
        final = rows["run"].astype(str) == "final"
        finals = rows[final].groupby(["kernel", "configuration"], observed=True)["seconds"].min()
        trials = rows[~final].groupby(["kernel", "configuration"], observed=True)["seconds"].min()
        both = finals.index.intersection(trials.index)
        if len(both) > 1:
            chosen = trials[both].to_numpy().argmin()
            shares.append(float(finals.min() / finals[both].to_numpy()[chosen]))
    return geometric_mean(shares) if shares else None


def run(day: Day, name: str) -> SliceOutcome:
    """Train and judge. Raises UnavailableError without training problems or held-out ones."""
    merged = measured_data(day)
    data = None if merged is None else of_devices(merged, [day.device.key])
    if data is None or not len(data):
        raise UnavailableError(f"nothing has been measured on {day.device.name} yet; run the data slices first")
    if not measured_tasks(data, held_out=False) or not measured_tasks(data, held_out=True):
        raise UnavailableError("training problems and held-out problems must have been measured; run the data slices")
    rows: list[dict[str, Any]] = []
    for label, judge in (("untrained", untrained_rows), ("trained", trained_rows)):
        try:
            rows += judge(day, data)
        except (CheckpointError, MisuseError) as error:
            day.say(f"  {label} is left out: {error}")
    summary = "; ".join(f"{row['method']} {row['share']:.3f} after {row['measured']}" for row in rows
                        if row["method"] in (UNTRAINED, "seqtune", "random") and row["measured"] in (0, 5))
    return SliceOutcome(True, summary, {"rows": rows, "retest_ceiling": retest_ceiling(data),
                                        "measurements": len(data), "held_out": len(data.held_out)})


def untrained_rows(day: Day, data: Dataset) -> list[dict[str, Any]]:
    """Judge the predictor that answers for the backend before any training. Raises CheckpointError without one."""
    predictor = predictor_for(day.device, answers_for(day.device.backend))
    return [{**row.to_json(), "method": UNTRAINED} for row in evaluate(data, predictor, ("seqtune",))]


def trained_rows(day: Day, data: Dataset) -> list[dict[str, Any]]:
    """Train a translator, keep it in the folder of the day unless this is a dry run, and judge it and the baselines."""
    until = time.monotonic() + SHARE_OF_TRAINING * day.left
    options = TrainingOptions(epochs=day.sizes.epochs, extra=day.sizes.extra, threads=os.cpu_count() or 2)
    if day.dry:  # on a busy machine, several threads wait for each other longer than such a small network computes
        options = replace(options, threads=1, lessons=16, width=32, layers=1, heads=2, hidden=32,
                          trees=replace(options.trees, rounds=10, models=1))
    model, report = train(data, options, stop_at(until, day.say))
    if not day.dry:
        model.save(day.folder / "checkpoint")
    methods = METHODS if not day.dry else METHODS[:3]
    rows = [row.to_json() for row in evaluate(data, model, methods)]
    return [{**row, "epochs": report["epochs"]} for row in rows]


def stop_at(until: float, say: Callable[[str], None]) -> Callable[[Any], None]:
    """A callback of training that ends it at a time of the clock, as Ctrl-C does: the best weights so far are kept."""
    def after_epoch(progress: Any) -> None:
        if time.monotonic() > until:
            say("  the training's time is up; its best weights are kept")
            raise KeyboardInterrupt

    return after_epoch
