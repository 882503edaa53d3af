"""Leave one machine, or one OpenCL runtime, out of the training: `python -m benchmarks machines --out docs`.

For each machine (or runtime) a predictor is trained on all other devices of the data set and evaluated on the one
left out, on problems that are new to it as well: without any data of it, after a calibration (`seqtune calibrate`,
replayed on recorded configurations of other problems), after `seqtune retrain` with a few of its problems, and after
both. The methods choose among the measured configurations. Shares have 95 % intervals by a bootstrap of the problems;
in the row over all devices of a machine, the devices of a problem are drawn together. The other devices are not
evaluated again after the retraining: the retrained checkpoint keeps the one that it began from for them.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common.evaluation import ALL, BEST_OF, COUNTS, by_columns, ceiling_cell, merged_devices, share_cells
from benchmarks.common.finished import checksum
from benchmarks.common.page import Page, Results, add_out, check_ready, evaluated, publish
from benchmarks.common.program import OneLineParser, positive
from benchmarks.common.progress import say
from benchmarks.common.report import Row, markdown, today
from seqtune.data.formats.dataset_file import read_dataset
from seqtune.errors import MisuseError, SeqtuneError
from seqtune.predictor.learning.tasks.shares import OURS

from .calibrated import PROBES, calibrated
from .left_out import LeftOut, groups, left_out

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset
    from seqtune.kernels.task import MeasuredTask
    from seqtune.predictor.checkpoint import Checkpoint
    from seqtune.predictor.predictors import Predictor

NEVER, CALIBRATED, FEW, BOTH = "no data of it", "after calibrate", "after retrain", "after retrain and calibrate"


def evaluated_rows(held_out: Sequence[MeasuredTask], predictors: Mapping[str, Predictor], about: Mapping[str, Any],
                simple: Sequence[str] = ()) -> list[Row]:
    """Evaluate predictors on tasks: rows by device, and over all devices where there are several."""
    from seqtune.predictor.learning.tasks.evaluation import replayed
    from seqtune.predictor.learning.tasks.shares import rows

    say(f"{about['left_out']}, {about['setting']}: {len(held_out)} tasks")
    results = replayed(held_out, predictors, (*predictors, *simple), COUNTS)
    several = len({outcome.device for outcome in results}) > 1
    parts = (results, merged_devices(results) if several else [])
    return [{**about, **row.to_json()} for part in parts for row in rows(part)]


def evaluate_group(given: argparse.Namespace, split: LeftOut) -> tuple[list[Row], dict[str, Any]]:
    """Train without the group and evaluate it in every setting; return the rows and the reports of the trainings."""
    from seqtune.data.measured_tasks import measured_tasks
    from seqtune.predictor.learning.tasks.baselines import Default

    held_out = measured_tasks(split.own, held_out=True)
    checkpoint, training = trained(given, split)
    about: dict[str, Any] = {"left_out": split.name}
    first = {**methods(checkpoint), "default": Default()}
    rows = evaluated_rows(held_out, first, {**about, "setting": NEVER}, ("random",))
    probed = measured_tasks(split.own, held_out=False)
    corrected, fits = calibrated(checkpoint, probed, given.seed)
    rows += evaluated_rows(held_out, {OURS: corrected}, {**about, "setting": CALIBRATED})
    training["calibration"] = {device: asdict(fit) for device, fit in fits.items()}
    if given.few:
        few = split.with_few(given.few, given.seed)
        adapted, training["retraining"] = adapted_to(given, checkpoint, few, split.old)
        rows += evaluated_rows(held_out, methods(adapted), {**about, "setting": FEW})
        corrected, _ = calibrated(adapted, probed, given.seed)
        rows += evaluated_rows(held_out, {OURS: corrected}, {**about, "setting": BOTH})
    return rows, training


def methods(checkpoint: Checkpoint) -> dict[str, Predictor]:
    """A checkpoint and its parts, by the names of their methods."""
    from seqtune.predictor.checkpoint_parts import parts_of

    return {OURS: checkpoint, **parts_of(checkpoint)}


def trained(given: argparse.Namespace, split: LeftOut) -> tuple[Checkpoint, dict[str, Any]]:
    """Train without the group by the recipe of `default`, or load an earlier training from --work."""
    from seqtune.data.measured_tasks import measured_tasks
    from seqtune.predictor.checkpoint import Checkpoint
    from seqtune.predictor.learning.recipe import Recipe
    from seqtune.predictor.learning.tasks.examples import held_out_problems
    from seqtune.predictor.learning.tasks.training import train_model
    from seqtune.predictor.training.state import describe

    options = replace(Recipe.read("default").options, epochs=given.epochs, extra=given.extra, seed=given.seed,
                      threads=given.threads)
    depends_on = checksum({"options": describe(options), "data": split.digest()})
    folder = given.work / f"without {split.name} {depends_on}".replace(":", "-").replace(" ", "-")
    if folder.exists():
        return Checkpoint.load(folder), {"checkpoint": folder.name}
    training = measured_tasks(split.without, held_out=False)
    checkpoint, report = train_model(training, held_out_problems(split.without),
                                     replace(options, state=given.work / f"{folder.name}-training"), say)
    if report["interrupted"]:
        raise SeqtuneError("the training was interrupted; run the command again to resume")
    checkpoint.save(folder)
    return checkpoint, {name: report[name] for name in ("problems", "cases", "epochs", "seconds")}


def adapted_to(given: argparse.Namespace, checkpoint: Checkpoint, few: Dataset,
               old: Dataset) -> tuple[Checkpoint, dict[str, Any]]:
    """Retrain a checkpoint with a few problems of the group."""
    from seqtune.predictor.learning.tasks.adaptation.report import OLD
    from seqtune.predictor.learning.tasks.adaptation.retraining import RETRAINING, retrain

    options = replace(RETRAINING, seed=given.seed, threads=given.threads)
    adapted, report = retrain(checkpoint, few, old, options, say)
    if report.interrupted:
        raise SeqtuneError("the retraining was interrupted; run the command again")
    assert not any(report.not_evaluated.values())  # `LeftOut` keeps the training problems away from all held-out ones
    content = report.to_json()
    shown = ("new_problems", "epochs", "seconds", "out_of_time", "unchanged")
    changed = sorted({row.device for row in report.evaluated if row.records == OLD})
    return adapted, {**{name: content[name] for name in shown}, "changed": changed}


def table(rows: Sequence[Row]) -> str:
    """Make the table: a line for each group, setting, device and method, best of 0, 3 and 5 with intervals."""
    cells = by_columns(rows, "left_out", "setting", "device", "method")
    lines = [[group, setting, str(by_count[0]["problems"]), f"**{method}**" if method == OURS else method,
              *share_cells(by_count), ceiling_cell(by_count[0])]
             for (group, setting, device, method), by_count in cells.items()
             if device == ALL or (group, setting, ALL, method) not in cells]
    return markdown(["left out", "setting", "problems", "method", *BEST_OF, "ceiling"], lines, left=4)


def claim(rows: Sequence[Row]) -> str:
    """The sentence with the figures that matter: the best model on every group, in every setting."""
    parts = []
    for group in dict.fromkeys(row["left_out"] for row in rows):
        figures = []
        for setting in (NEVER, CALIBRATED, FEW, BOTH):
            own = [row for row in rows if (row["left_out"], row["method"], row["setting"]) == (group, OURS, setting)]
            devices = {row["device"] for row in own}
            by_count = {row["measured"]: row for row in own if row["device"] in ({ALL} if ALL in devices else devices)}
            if by_count:
                figures.append(f"{by_count[COUNTS[0]]['share']:.3f} / {by_count[COUNTS[-1]]['share']:.3f} {setting}")
        parts.append(f"on {group} {', '.join(figures)}")
    return (f"{OURS} reaches, of the best known speed (first proposal / best of {COUNTS[-1]}), "
            f"on a machine or runtime that the training never saw: {'; '.join(parts)}.")


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows = results["rows"]
    few = results["few"]
    return Page(
        "machines", "A machine that the training never saw", claim(rows), command(results),
        table(rows), evaluated(results, "the shipped data set"),
        "A machine is a CPU with its caches and all its devices; each one, or OpenCL runtime, is left out alone. "
        "Held-out problems, and those near them, are left out of the training on all other devices, too. In brackets: "
        "the 95 % interval (bootstrap of the problems; the devices of a problem are drawn together). `†`: better than "
        "seqtune. "
        f"`{CALIBRATED}`: the probes that `seqtune calibrate` would choose on each device, {PROBES} of them, are "
        f"replayed from recorded configurations of other problems. "
        + (f"`{FEW}`: after `seqtune retrain` with {few} problems of the machine; `{BOTH}`: the retrained checkpoint, "
           "corrected by the same probes." if few else ""),
        (f"One training for each machine or runtime, with seed {results['seed']}.", *other_devices(results),
         "The methods choose among measured configurations. Single times measured on virtual machines are noisy; the "
         "ceiling, where there are repeated builds, is what an oracle reaches whose choice is measured again."))


def command(results: Results) -> str:
    """The command that makes these results."""
    leave = " ".join(dict.fromkeys(row["left_out"] for row in results["rows"]))
    options = f"--epochs {results['epochs']} --extra {results['extra']}"
    return f"python -m benchmarks machines --leave {leave} {options} --out docs"


def other_devices(results: Results) -> list[str]:
    """A sentence about the devices that the retrainings were not for, if there were any."""
    retrainings = [training["retraining"] for training in results["trainings"].values() if "retraining" in training]
    if not retrainings:
        return []
    changed = sorted({device for retraining in retrainings for device in retraining["changed"]})
    words = f", except for {', '.join(changed)}, where kernels were new" if changed else ""
    return ["No other device lost anything by a retraining: its answers are, bit for bit, those of the checkpoint that "
            f"the retraining began from, which the retrained one keeps for it{words}."]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    add_out(parser)
    parser.add_argument("--leave", nargs="+", help="machines and runtimes to leave out [default: each in turn]")
    parser.add_argument("--few", type=int, default=20, help="problems of the machine to learn then; 0: none")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=positive, default=30)
    parser.add_argument("--extra", type=int, default=0, help="sampled problems that the teacher labels")
    parser.add_argument("--threads", type=positive, default=2)
    parser.add_argument("--work", type=Path, help="folder of the trainings [default: in the user's cache folder]")
    given = parser.parse_args(arguments)
    run(given)


def run(given: argparse.Namespace) -> None:
    """Leave out each group in turn, and write the results."""
    import platformdirs

    check_ready(given.out)
    given.work = given.work or Path(platformdirs.user_cache_dir("seqtune")) / "machines"
    data = read_dataset(None)
    names = given.leave or list(groups(data.devices.values()))
    if not names:
        raise MisuseError("the data set has one machine and at most one OpenCL runtime; nothing can be left out")
    rows: list[Row] = []
    trainings: dict[str, Any] = {}
    for name in names:
        own, trainings[name] = evaluate_group(given, left_out(data, name, given.seed))
        rows += own
        say(table(own))
    results = {"date": today(), "seed": given.seed, "few": given.few, "epochs": given.epochs, "extra": given.extra,
               "trainings": trainings, "rows": rows}
    publish(given.out, page, results)
    print(f"{table(rows)}\n\n{claim(rows)}")
