"""Retrain a translator for a new device: `python -m benchmarks.new_device --out docs [--device llvm:sse:2]`.

One device is left out of the shipped data set. A translator is trained on the other devices, and retrained with a few
problems of the new device while the old problems are rehearsed. The program reports shares of the best known speed on
held-out problems: on the new device before and after, and after a training from scratch on the same few problems; on
the old devices before and after, which should lose nothing. It writes new_device.json and new_device.svg and prints
Markdown.

An interrupted first training is resumed (--work stores it); --checkpoint replaces it.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common.page import Page, Results, add_out, publish, replayed
from benchmarks.common.program import run_program
from benchmarks.common.report import (
    BLUE,
    GREY,
    VERMILION,
    apart,
    height,
    machine,
    markdown,
    save,
    share_axis,
    style,
)
from seqtune.data.formats.dataset_file import read_dataset
from seqtune.errors import MisuseError, SeqtuneError

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset
    from seqtune.predictor.times.checkpoint import Checkpoint
    from seqtune.predictor.times.training_options import TrainingOptions
    from seqtune.predictor.training.loop import Progress

COUNTS = ("0", "3", "5")
LOSS = 0.005  # accepted loss of share on an old device
Shares = Mapping[str, Mapping[str, float]]  # device -> measured -> share


@dataclass(frozen=True)
class DeviceSplit:
    """A data set split into the records of the old devices and a few problems of the new one."""

    old: Dataset
    new: Dataset  # with all held-out problems of the new device
    device: str
    chosen: tuple[str, ...]  # keys of the new device's training problems


def parts(data: Dataset, device: str, problems: int, seed: int) -> DeviceSplit:
    """Split a data set: leave one device out. Raises DeviceError, MisuseError."""
    import numpy as np

    from seqtune.data.measured_tasks import measured_tasks

    left_out = data.device(device)
    of_device = data.rows["device"] == left_out.key
    own = replace(data, rows=data.rows[of_device].reset_index(drop=True))
    training_problems = sorted(measured.problem.key for measured in measured_tasks(own, held_out=False))
    if len(training_problems) < problems:
        raise MisuseError(f"{device} has {len(training_problems)} training problems, --problems asks for {problems}")
    order = np.random.default_rng(seed).permutation(len(training_problems))
    chosen = sorted(training_problems[index] for index in order[:problems])
    new = own.rows[own.rows["problem"].isin([*chosen, *data.held_out])].reset_index(drop=True)
    old = data.rows[~of_device].reset_index(drop=True)
    others = {key: one for key, one in data.devices.items() if key != left_out.key}
    if not len(old):
        raise MisuseError(f"the data set has no device but {device}; the first training needs another")
    return DeviceSplit(replace(data, rows=old, devices=others), replace(own, rows=new), left_out.name, tuple(chosen))


def first(given: argparse.Namespace, split: DeviceSplit, options: TrainingOptions) -> tuple[Checkpoint, dict[str, Any]]:
    """Load or train the translator that does not know the device, and describe its training."""
    from seqtune.predictor.times.checkpoint import Checkpoint
    from seqtune.predictor.times.training import train

    if given.checkpoint is not None:
        checkpoint = Checkpoint.load(given.checkpoint)
        trainings: list[Any] = [checkpoint.provenance.get(name, {}) for name in ("trained_on", "retrained_on")]
        if any(split.device in training.get("devices", ()) for training in trainings):
            raise MisuseError(f"the checkpoint {given.checkpoint} was trained on {split.device}; name one that was not")
        return checkpoint, {"checkpoint": Path(given.checkpoint).name}
    checkpoint, report = train(split.old, options, progress)
    if report["interrupted"]:
        raise SeqtuneError("the training was interrupted; run the command again to resume")
    folder = given.work / f"without-{_plain(split.device)}"
    checkpoint.save(folder)
    print(f"the checkpoint is {folder}", file=sys.stderr)
    return checkpoint, {name: report[name] for name in ("problems", "cases", "epochs", "best_epoch", "seconds")}


def progress(step: Progress) -> None:
    """Print a line for an epoch."""
    share = "".join(f", {name} {value:.4f}" for name, value in step.figures.items())
    print(f"epoch {step.epoch}/{step.epochs}, loss {step.loss:.4f}{share}, {step.seconds:.0f} s", file=sys.stderr,
          flush=True)


def table(report: Mapping[str, Any], device: str) -> str:
    """Make the table: the new device first, then each old one."""
    lines = []
    for name, label in (("before", "never saw the device"), ("after", "retrained"), ("scratch", "from scratch")):
        by_device: Shares | None = report["new"].get(name)
        shares = None if by_device is None else by_device.get(device)
        lines.append([device, label, *("-" if shares is None else f"{shares[count]:.3f}" for count in COUNTS)])
    for old in report["old"]["before"]:
        for name in ("before", "after"):
            lines.append([old, name, *(f"{report['old'][name][old][count]:.3f}" for count in COUNTS)])
    return markdown(["device", "translator", "first proposal", "best of 3", "best of 5"], lines, left=2)


def greatest_loss(old: Mapping[str, Shares]) -> float:
    """The largest loss of an old device at any number of measured proposals; negative if all gained."""
    return max(old["before"][device][count] - old["after"][device][count]
               for device in old["before"] for count in COUNTS)


def draw(report: Mapping[str, Any], device: str, problems: int, path: Path) -> None:
    """Draw the shares on the new device (left), and on the old devices before and after (right)."""
    pyplot = style()
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(8.6, 3.0), width_ratios=(1, 1.15))
    lines = [(name, label, colour, dashes) for name, label, colour, dashes in (
        ("after", f"retrained on {problems} problems", BLUE, "-"), ("before", "never saw the device", GREY, "--"),
        ("scratch", f"only these {problems} problems", VERMILION, "-")) if (report["new"].get(name) or {}).get(device)]
    shares = {name: [height(report["new"][name][device][count]) for count in COUNTS] for name, *_ in lines}
    lowest = max(0.0, math.floor(min(map(min, shares.values())) * 20 - 0.2) / 20)
    share_axis(left, lowest)
    ends = [-math.log(1 - shares[name][-1]) for name, *_ in lines]
    placed = apart(ends, 0.09 * math.log((1 - lowest) / (1 - 0.9975)))
    for (name, label, colour, dashes), own, label_height in zip(lines, ends, placed, strict=True):
        left.plot([0, 3, 5], shares[name], dashes, color=colour, marker="o", markersize=4, linewidth=2, clip_on=False,
                  zorder=3 if name == "after" else 2)
        left.plot([5.15, 5.5], [1 - math.exp(-own), 1 - math.exp(-label_height)], color=colour, linewidth=0.6,
                  clip_on=False)
        left.text(5.6, 1 - math.exp(-label_height), label, color=colour, va="center")
    left.set_xlim(-0.3, 12)
    left.set_xticks([0, 3, 5])
    left.spines["bottom"].set_bounds(0, 5)
    left.set_xlabel("measured proposals", loc="left")
    left.set_ylabel("share of the best known speed")
    left.set_title(f"{device}, new", loc="left")
    before, after = report["old"]["before"], report["old"]["after"]
    names = list(before)[::-1]
    for row, name in enumerate(names):
        begin, end = before[name]["0"], after[name]["0"]
        right.plot([begin, end], [row, row], color="#bbbbbb", linewidth=2, zorder=1)
        right.plot([begin], [row], "o", color=GREY, markerfacecolor="white", markersize=7)
        right.plot([end], [row], "o", color=BLUE, markersize=6)
        right.annotate(f"{end - begin:+.3f}", (max(begin, end), row), (7, 0), textcoords="offset points", va="center")
    right.set_yticks(range(len(names)), names)
    right.set_ylim(-0.6, len(names) - 0.1)
    right.grid(axis="x")
    right.grid(visible=False, axis="y")
    reach = [shares_by_device[name]["0"] for shares_by_device in (before, after) for name in names]
    room = max(reach) - min(reach) + 0.01
    right.set_xlim(min(reach) - 0.1 * room, max(reach) + 0.35 * room)
    right.set_xlabel("share of the first proposal: open before, filled after", loc="left")
    right.set_title("the devices known before", loc="left")
    save(figure, path)


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", name)


def page(results: Results) -> Page:
    """Make the page of the results."""
    device, loss, accepted = results["device"], results["greatest_loss"], results["accepted_loss"]
    lost = f"The largest loss of an old device is {loss:.4f}" if loss > 0 else "No old device lost anything"
    lost += f" ({accepted} is accepted)." if loss <= accepted else f", more than the accepted {accepted}."
    before, after, scratch = (results["new"][name][device] for name in ("before", "after", "scratch"))
    ahead = [count for count in COUNTS[1:] if scratch[count] > after[count]]
    return Page(
        "new_device", "A new device",
        f"A translator that never saw {device} reaches {before['0']:.3f} of the best known speed there with its "
        f"first proposal; retrained on {results['new_problems']} of its problems, {after['0']:.3f}. {lost}",
        "python -m benchmarks.new_device --out docs", table(results, device),
        replayed(results, "Trained and evaluated"),
        "One device is left out of the data. A translator is trained on the others, then retrained with a few problems "
        "of the new device, while the old problems are rehearsed. Shares of the best known speed on held-out "
        "problems: of the first proposal unmeasured, and of the best of 3 and 5 measured ones. `from scratch` is "
        "trained on the same few problems alone.",
        (*([f"With {' and '.join(ahead)} measured proposals, the translator trained from scratch is ahead of the "
            "retrained one."] if ahead else []),
         "This is one run with one seed, and the new device has only 19 held-out problems: few for differences of this "
         "size."),
        "Shares on the new device and on the old devices, before and after retraining")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_out(parser, required=True)
    parser.add_argument("--device", default="llvm:sse:2", help="the device to leave out")
    parser.add_argument("--data", type=Path, help="a data set (Parquet) other than the shipped one")
    parser.add_argument("--problems", type=int, default=20, help="number of training problems of the new device")
    parser.add_argument("--seed", type=int, default=0, help="seed of the choice of these problems and of the trainings")
    parser.add_argument("--checkpoint", help="a translator already trained without the device")
    parser.add_argument("--epochs", type=int, default=30, help="epochs of the first training")
    parser.add_argument("--extra", type=int, default=3000, help="additional problems that the teacher labels")
    parser.add_argument("--retrain-epochs", type=int, help="epochs of the retraining")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--work", type=Path, help="folder for unfinished and finished trainings "
                                                  "[default: in the user's cache folder]")
    given = parser.parse_args()
    run_program("new_device", lambda: run(given))


def run(given: argparse.Namespace) -> None:
    """Run the experiment and write the results."""
    import platformdirs

    from seqtune.predictor.times.retraining import RETRAINING, retrain
    from seqtune.predictor.times.training_options import TrainingOptions

    given.work = given.work or Path(platformdirs.user_cache_dir("seqtune")) / "new_device"
    split = parts(read_dataset(given.data), given.device, given.problems, given.seed)
    given.device = split.device
    options = TrainingOptions(epochs=given.epochs, extra=given.extra, seed=given.seed, threads=given.threads,
                              state=given.work / f"training-{_plain(given.device)}")
    checkpoint, training = first(given, split, options)
    adapting = replace(RETRAINING, seed=given.seed, threads=given.threads,
                       epochs=given.retrain_epochs or RETRAINING.epochs)
    after, report = retrain(checkpoint, split.new, split.old, adapting, progress, scratch=True)
    if report["interrupted"]:
        raise SeqtuneError("the retraining was interrupted; run the command again")
    after.save(given.work / f"with-{_plain(given.device)}")
    results = {
        "machine": machine(list(split.new.devices.values())), "device": given.device, "chosen": split.chosen,
        "seed": given.seed, "first_training": training, "greatest_loss": greatest_loss(report["old"]),
        "accepted_loss": LOSS,
        **{name: report[name] for name in ("new", "old", "new_problems", "old_cases", "epochs", "new_words")}}
    publish(given.out, page, results, lambda path: draw(report, given.device, given.problems, path))
    written = page(results)
    print(f"{written.tables}\n\n{written.claim}\n\n{written.measured}")


if __name__ == "__main__":
    main()
