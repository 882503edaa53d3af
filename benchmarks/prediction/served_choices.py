"""Compare proposals with the tuned files of SGLang: `python -m benchmarks served_choices WHEEL --out docs`.

WHEEL is SGLang's wheel from PyPI (`pip download sglang --no-deps`). Its files hold the settings that its tuner found
fastest, by layer, GPU and number of tokens, without times, so only agreement can be judged: the share of equal values,
and the rank of the tuned configuration among all valid ones in the order of the analytic model. Baselines are the
settings that the projects use without a file, and the nearest other file: of another GPU, or of another model.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.common.page import Page, Results, add_out, check_ready, evaluated, publish
from benchmarks.common.program import OneLineParser, positive
from benchmarks.common.report import Row, markdown, today
from benchmarks.prediction.served_files import KEYS, TunedChoice, tuned_choices
from seqtune.data.serving.nearest_choice import ChoiceGroup, group_of
from seqtune.kernels.kernel import Configuration, Setting
from seqtune.kernels.task import Task
from seqtune.kernels.triton.fused_moe import served_default
from seqtune.tuner.cost_models.analytic import estimates

BLOCKS = KEYS[:3]
METHODS = {"analytic": "analytic model", "default": "the projects' default", "device": "nearest file, another GPU",
           "model": "nearest file, another model", "random": "a random configuration"}


def kind_of(choice: TunedChoice) -> str:
    """The group of a choice in the table."""
    features = dict(choice.problem)
    eight = str(features["dtype"]).endswith("w8a8")
    layer = "linear" if choice.problem.type == "scaled_gemm" else (
        "experts" if features["half"] == "up" else "experts, down")
    amd = ", AMD" if choice.device.instruction_set != "ptx" else ""
    return f"{layer}, {'8 bit' if eight else '16 bit'}{amd}"


def nearest(choices: Sequence[TunedChoice], differs: Callable[[TunedChoice], str]) -> list[int]:
    """The index of the nearest comparable choice that differs in the given property; -1 where there is none."""
    groups: dict[object, list[int]] = {}
    for index, choice in enumerate(choices):
        groups.setdefault(group_of(choice.problem, choice.device), []).append(index)
    answer = [-1] * len(choices)
    for members in groups.values():
        group = ChoiceGroup.of([(choices[index].problem, choices[index].device) for index in members])
        properties = np.array([differs(choices[index]) for index in members])
        for position, index in enumerate(members):
            distance = group.distances(choices[index].problem, choices[index].device)
            distance[properties == properties[position]] = np.inf
            best = int(distance.argmin())
            if np.isfinite(distance[best]):
                answer[index] = members[best]
    return answer


def random_shares(task: Task, settings: dict[str, int]) -> Row:
    """The share of a task's configurations that agree with the tuned settings."""
    (space,) = task.spaces
    columns = space.columns()
    equal = {key: columns[key] == settings[key] for key in KEYS}
    return {"exact": float(np.logical_and.reduce([equal[key] for key in KEYS]).mean()),
            "blocks": float(np.logical_and.reduce([equal[key] for key in BLOCKS]).mean()),
            **{key: float(equal[key].mean()) for key in KEYS}}


def agreement(settings: Mapping[str, Setting], tuned: dict[str, int]) -> Row:
    """1 or 0 for each value that is equal to the tuned one, for the whole block and for all values."""
    equal = {key: float(settings[key] == tuned[key]) for key in KEYS}
    return {"exact": min(equal.values()), "blocks": min(equal[key] for key in BLOCKS), **equal}


def compare(choices: Sequence[TunedChoice], sample: int | None, left_out: Counter[str],
            progress: Callable[[str], None]) -> list[Row]:
    """Make a row for each choice and method: which values are equal, and the tuned one's rank in the model's order."""
    neighbours = {"device": nearest(choices, lambda choice: choice.device.model),
                  "model": nearest(choices, lambda choice: choice.model)}
    chosen = list(range(len(choices)))
    if sample is not None and sample < len(choices):
        chosen = sorted(np.random.default_rng(0).choice(len(choices), sample, replace=False).tolist())
    rows: list[Row] = []
    for number, index in enumerate(chosen, start=1):
        if number % 100 == 1:
            progress(f"choice {number} of {len(chosen)}")
        choice = choices[index]
        task = Task.of(choice.problem, choice.device)
        family = task.kernels[0]
        settings = {name: choice.settings[name] for name in family.by_name}
        tuned = task.find(Configuration.of(family.name, settings))
        if tuned is None:
            left_out["a configuration that is not in the space"] += 1
            continue
        seconds = estimates(task)
        label = {"kind": kind_of(choice)}
        rank = float((seconds < seconds[tuned]).mean())
        rows.append({**label, "method": "analytic", "rank": rank,
                     **agreement(dict(task[int(np.argmin(seconds))].settings), settings)})
        rows.append({**label, "method": "random", **random_shares(task, settings)})
        default = served_default(choice.problem) if choice.problem.type == "fused_moe" else dict(family.default)
        rows.append({**label, "method": "default", **agreement(default, settings)})
        for method, indices in neighbours.items():
            if indices[index] >= 0:
                rows.append({**label, "method": method, **agreement(choices[indices[index]].settings, settings)})
    return rows


def summary(rows: Sequence[Row]) -> list[Row]:
    """Make a row for each kind and method: means, and the median rank of the tuned configuration."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["kind"], row["method"]), []).append(row)
    means = []
    for (kind, method), group in sorted(groups.items()):
        ranks = [row["rank"] for row in group if "rank" in row]
        means.append({"kind": kind, "method": method, "choices": len(group),
                      **{name: float(np.mean([row[name] for row in group])) for name in ("exact", "blocks", *KEYS)},
                      "rank": float(np.median(ranks)) if ranks else None,
                      "first_percent": float(np.mean(np.array(ranks) <= 0.01)) if ranks else None})
    return means


def table(rows: Sequence[Row]) -> str:
    """Make the table of the summary."""
    lines = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        for method, title in METHODS.items():
            for row in (row for row in rows if (row["kind"], row["method"]) == (kind, method)):
                lines.append([f"{kind} ({row['choices']})", title,
                              *(f"{row[name]:.2f}" for name in ("exact", "blocks", *KEYS)),
                              "" if row["rank"] is None else f"{100 * row['rank']:.1f} %"])
    return markdown(["layers (choices)", "answer", "all", "block", "M", "N", "K", "group", "warps", "stages",
                     "rank of the tuned"], lines, left=2)


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows = results["rows"]
    judged = sum(row["choices"] for row in rows if row["method"] == "analytic")

    def mean(method: str, name: str) -> float:
        own = [row for row in rows if row["method"] == method]
        total: float = sum(row[name] * row["choices"] for row in own)
        count: int = sum(row["choices"] for row in own)
        return total / count

    left_out = "; ".join(f"{count} ({reason})" for reason, count in results["left_out"].items())
    return Page(
        "served_choices", "Agreement with SGLang's tuned files",
        f"The analytic model's first proposal has the block of the tuned file in {mean('analytic', 'blocks'):.0%} of "
        f"{judged} choices, the projects' default in {mean('default', 'blocks'):.0%}, a file of the nearest other GPU "
        f"in {mean('device', 'blocks'):.0%}. No times of these configurations are known, so this does not compare "
        "speeds.",
        "python -m benchmarks served_choices WHEEL --out docs", table(rows),
        evaluated(results, f"the files in {results['wheel']}"),
        "Shares of choices (a file's settings for one number of tokens) where all values, the block (M, N and K) or "
        "one value equal the tuned ones. `nearest file`: the tuned settings of the most similar layer in a file of "
        "another GPU, or of another model. `rank of the tuned`: the median share of valid configurations that the "
        "model estimates to be faster than the tuned one; 50 % would be chance.",
        ("Many configurations are within the noise of a measurement of each other, so two runs of a tuner would not "
         "agree in all values either; how far they would is not known.",
         "The files do not say for which model they were tuned: its width and experts per token are those of the known "
         "model with these sizes.",
         "Some files are copies of another GPU's: those of AMD's MI325X and of MI300X are mostly equal, and a nearest "
         "file then agrees in everything.",
         "The tuner timed both products of experts together; the model judges the first one.",
         f"Left out: {left_out}."))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    parser.add_argument("wheel", type=Path, help="SGLang's wheel")
    parser.add_argument("--sample", type=positive, help="judge only so many choices, drawn at random")
    add_out(parser)
    given = parser.parse_args(arguments)
    check_ready(given.out)
    left_out: Counter[str] = Counter()
    choices = list(tuned_choices(given.wheel, left_out))
    rows = summary(compare(choices, given.sample, left_out, lambda step: print(step, file=sys.stderr)))
    publish(given.out, page, {"date": today(), "wheel": "-".join(given.wheel.name.split("-")[:2]), "rows": rows,
                              "left_out": dict(left_out)})
    print(table(rows))
    print(f"left out: {dict(left_out)}")
