"""How a translator learns a new device: `python -m benchmarks.new_device --out docs [--device llvm:sse:2]`.

One device is left out of the shipped data; a translator is trained on the others, and retrained with a few problems of
the one left out while the old ones are rehearsed. Reported are shares of the best known speed on held-out problems: of
the new device before, after, and after a training from scratch on the same few problems; of the old devices before and
after, which should lose nothing. Writes new_device.json and new_device.svg and prints Markdown.

The first training is resumed if it is interrupted (--work keeps it), or left out with --checkpoint.
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
LOSS = 0.005  # of share on an old device that is accepted
Shares = Mapping[str, Mapping[str, float]]  # device -> measured -> share


@dataclass(frozen=True)
class Parts:
    """A data set in three: everything of the other devices, a few problems of the new one, and who is who."""

    old: Dataset
    new: Dataset  # with all held-out problems of the new device
    device: str
    chosen: tuple[str, ...]  # keys of the problems to learn from


def parts(data: Dataset, device: str, problems: int, seed: int) -> Parts:
    """Leaves a device out. Raises DeviceError, MisuseError."""
    import numpy as np

    from seqtune.data.measured_tasks import measured_tasks

    left_out = data.device(device)
    mine = data.rows["device"] == left_out.key
    own = replace(data, rows=data.rows[mine].reset_index(drop=True))
    known = sorted(measured.problem.key for measured in measured_tasks(own, held_out=False))
    if len(known) < problems:
        raise MisuseError(f"only {len(known)} problems of {device} are there to learn from, {problems} are asked for")
    chosen = sorted(known[place] for place in np.random.default_rng(seed).permutation(len(known))[:problems])
    new = own.rows[own.rows["problem"].isin([*chosen, *data.held_out])].reset_index(drop=True)
    old = data.rows[~mine].reset_index(drop=True)
    others = {key: one for key, one in data.devices.items() if key != left_out.key}
    if not len(old):
        raise MisuseError(f"the data set has no device beside {device}")
    return Parts(replace(data, rows=old, devices=others), replace(own, rows=new), left_out.name, tuple(chosen))


def first(given: argparse.Namespace, split: Parts, options: TrainingOptions) -> tuple[Checkpoint, dict[str, Any]]:
    """The translator that does not know the device: read, or trained."""
    from seqtune.predictor.times.checkpoint import Checkpoint
    from seqtune.predictor.times.training import train

    if given.checkpoint is not None:
        found = Checkpoint.load(given.checkpoint)
        lessons: list[Any] = [found.provenance.get(name, {}) for name in ("trained_on", "retrained_on")]
        if any(split.device in one.get("devices", ()) for one in lessons):
            raise MisuseError(f"the checkpoint {given.checkpoint} was trained on {split.device}; name one that was not")
        return found, {"checkpoint": Path(given.checkpoint).name}
    found, report = train(split.old, options, progress)
    if report["interrupted"]:
        raise SeqtuneError("interrupted; run it again to go on")
    folder = given.work / f"without-{_plain(split.device)}"
    found.save(folder)
    print(f"the checkpoint is {folder}", file=sys.stderr)
    return found, {name: report[name] for name in ("problems", "cases", "epochs", "best_epoch", "seconds")}


def progress(step: Progress) -> None:
    """A line for each epoch."""
    share = "".join(f", {name} {value:.4f}" for name, value in step.figures.items())
    print(f"epoch {step.epoch}/{step.epochs}, loss {step.loss:.4f}{share}, {step.seconds:.0f} s", file=sys.stderr,
          flush=True)


def table(report: Mapping[str, Any], device: str) -> str:
    """The new device first, then each old one."""
    lines = []
    for name, label in (("before", "never saw the device"), ("after", "retrained"), ("scratch", "from scratch")):
        found: Shares | None = report["new"].get(name)
        shares = None if found is None else found.get(device)
        lines.append([device, label, *("-" if shares is None else f"{shares[count]:.3f}" for count in COUNTS)])
    for old in report["old"]["before"]:
        for name in ("before", "after"):
            lines.append([old, name, *(f"{report['old'][name][old][count]:.3f}" for count in COUNTS)])
    return markdown(["device", "translator", "first proposal", "best of 3", "best of 5"], lines, left=2)


def greatest_loss(old: Mapping[str, Shares]) -> float:
    """The most that any old device lost, at any number measured; negative where all gained."""
    return max(old["before"][device][count] - old["after"][device][count]
               for device in old["before"] for count in COUNTS)


def draw(report: Mapping[str, Any], device: str, problems: int, path: Path) -> None:
    """Left: the new device. Right: what the old ones kept of their first proposals."""
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
    for (name, label, colour, dashes), own, place in zip(lines, ends, placed, strict=True):
        left.plot([0, 3, 5], shares[name], dashes, color=colour, marker="o", markersize=4, linewidth=2, clip_on=False,
                  zorder=3 if name == "after" else 2)
        left.plot([5.15, 5.5], [1 - math.exp(-own), 1 - math.exp(-place)], color=colour, linewidth=0.6, clip_on=False)
        left.text(5.6, 1 - math.exp(-place), label, color=colour, va="center")
    left.set_xlim(-0.3, 12)
    left.set_xticks([0, 3, 5])
    left.spines["bottom"].set_bounds(0, 5)
    left.set_xlabel("measured proposals", loc="left")
    left.set_ylabel("share of the best known speed")
    left.set_title(f"{device}, new", loc="left")
    before, after = report["old"]["before"], report["old"]["after"]
    names = list(before)[::-1]
    for place, name in enumerate(names):
        begin, end = before[name]["0"], after[name]["0"]
        right.plot([begin, end], [place, place], color="#bbbbbb", linewidth=2, zorder=1)
        right.plot([begin], [place], "o", color=GREY, markerfacecolor="white", markersize=7)
        right.plot([end], [place], "o", color=BLUE, markersize=6)
        right.annotate(f"{end - begin:+.3f}", (max(begin, end), place), (7, 0), textcoords="offset points", va="center")
    right.set_yticks(range(len(names)), names)
    right.set_ylim(-0.6, len(names) - 0.1)
    right.grid(axis="x")
    right.grid(visible=False, axis="y")
    reach = [found[name]["0"] for found in (before, after) for name in names]
    room = max(reach) - min(reach) + 0.01
    right.set_xlim(min(reach) - 0.1 * room, max(reach) + 0.35 * room)
    right.set_xlabel("share of the first proposal: open before, filled after", loc="left")
    right.set_title("the devices known before", loc="left")
    save(figure, path)


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", name)


def page(found: Results) -> Page:
    """The page of the result."""
    device, loss, accepted = found["device"], found["greatest_loss"], found["accepted_loss"]
    lost = f"The most that an old device lost is {loss:.4f}" if loss > 0 else "No old device lost anything"
    lost += f" ({accepted} is accepted)." if loss <= accepted else f": more than the {accepted} that is accepted."
    before, after, scratch = (found["new"][name][device] for name in ("before", "after", "scratch"))
    ahead = [count for count in COUNTS[1:] if scratch[count] > after[count]]
    return Page(
        "new_device", "A new device",
        f"A translator that never saw {device} reaches {before['0']:.3f} of the best known speed there with its "
        f"first proposal; retrained on {found['new_problems']} of its problems, {after['0']:.3f}. {lost}",
        "python -m benchmarks.new_device --out docs", table(found, device), replayed(found, "Trained and evaluated"),
        "One device is left out of the data. A translator is trained on the others, then retrained with a few problems "
        "of the device left out, while the old problems are rehearsed. Shares of the best known speed on held-out "
        "problems: of the first proposal unmeasured, and of the best of 3 and 5 measured ones. `from scratch` is "
        "trained on the same few problems alone.",
        (*([f"With {' and '.join(ahead)} measured proposals, the translator trained from scratch is ahead of the "
            "retrained one."] if ahead else []),
         "One run with one seed; the new device has 19 held-out problems, few for differences of this size."),
        "Shares on the new device before and after retraining, and what the old devices kept")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_out(parser, required=True)
    parser.add_argument("--device", default="llvm:sse:2", help="the one to leave out")
    parser.add_argument("--data", type=Path, help="a data set (Parquet) other than the shipped one")
    parser.add_argument("--problems", type=int, default=20, help="of the device left out, to learn from")
    parser.add_argument("--seed", type=int, default=0, help="chooses these problems, and seeds the trainings")
    parser.add_argument("--checkpoint", help="a translator already trained without the device")
    parser.add_argument("--epochs", type=int, default=30, help="of the first training")
    parser.add_argument("--extra", type=int, default=3000, help="problems that its teacher labels")
    parser.add_argument("--retrain-epochs", type=int, help="of the retraining")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--work", type=Path, help="folder for unfinished and finished trainings "
                                                  "[default: in the user's cache folder]")
    given = parser.parse_args()
    run_program("new_device", lambda: run(given))


def run(given: argparse.Namespace) -> None:
    """The experiment."""
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
    after, report = retrain(checkpoint, split.new, split.old, adapting, progress)
    if report["interrupted"]:
        raise SeqtuneError("the retraining was interrupted; run it again")
    after.save(given.work / f"with-{_plain(given.device)}")
    found = {
        "machine": machine(list(split.new.devices.values())), "device": given.device, "chosen": split.chosen,
        "seed": given.seed, "first_training": training, "greatest_loss": greatest_loss(report["old"]),
        "accepted_loss": LOSS,
        **{name: report[name] for name in ("new", "old", "new_problems", "old_cases", "epochs", "new_words")}}
    publish(given.out, page, found, lambda path: draw(report, given.device, given.problems, path))
    made = page(found)
    print(f"{made.tables}\n\n{made.claim}\n\n{made.measured}")


if __name__ == "__main__":
    main()
