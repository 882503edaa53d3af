"""Page of the layers: one table of all comparisons, a table for each problem set, and one figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.contest import geometric_mean
from benchmarks.common.page import Page, Results, measured_on
from benchmarks.common.report import Row, markdown
from seqtune.figures.picture import BLACK, BLUE, GREY, panel, save, style

from .problem_sets import PROBLEM_SETS, Comparison, ProblemSet, described

Seconds = dict[str, float]  # method -> seconds
TICKS = (0.25, 0.5, 0.7, 1, 1.5, 2, 3, 4, 6)  # ratios that the figure's axis names


@dataclass(frozen=True)
class Compared:
    """One comparison over the layers of a set, on one number of threads."""

    problem_set: ProblemSet
    threads: int
    comparison: Comparison
    ratios: Mapping[str, float]  # layer -> the peer's time divided by ours

    @property
    def mean(self) -> float:
        """The geometric mean of the ratios."""
        return geometric_mean(list(self.ratios.values()))

    @property
    def least(self) -> tuple[str, float]:
        """The layer with the least ratio, and that ratio."""
        layer = min(self.ratios, key=self.ratios.__getitem__)
        return layer, self.ratios[layer]


def seconds_by_method(rows: Sequence[Row]) -> dict[tuple[str, int], Seconds]:
    """The seconds of the contests: (layer, threads) -> method -> seconds."""
    by_layer: dict[tuple[str, int], Seconds] = {}
    for row in rows:
        by_layer.setdefault((row["layer"], row["threads"]), {})[row["method"]] = row["seconds"]
    return by_layer


def compared(problem_set: ProblemSet, rows: Sequence[Row]) -> list[Compared]:
    """The comparisons of a set for which something was measured."""
    by_layer, comparisons = seconds_by_method(rows), list[Compared]()
    for threads in dict.fromkeys(count for _, count in by_layer):
        for comparison in problem_set.comparisons:
            ratios = {layer: comparison.ratio(seconds) for (layer, count), seconds in by_layer.items()
                      if count == threads}
            known = {layer: ratio for layer, ratio in ratios.items() if ratio is not None}
            if known:
                comparisons.append(Compared(problem_set, threads, comparison, known))
    return comparisons


def all_compared(results: Results) -> list[Compared]:
    """The comparisons of all sets that were measured."""
    return [entry for name, problem_set in PROBLEM_SETS.items() if name in results
            for entry in compared(problem_set, results[name]["rows"])]


def summary(comparisons: Sequence[Compared]) -> str:
    """The table of the comparisons."""
    return markdown(["problems", "compared with", "threads", "layers", "geometric mean", "least", "of"], [
        [entry.problem_set.title, entry.comparison.title, str(entry.threads), str(len(entry.ratios)),
         f"**{entry.mean:.2f}**", f"{entry.least[1]:.2f}", entry.least[0]] for entry in comparisons], left=2)


def table(problem_set: ProblemSet, rows: Sequence[Row]) -> str:
    """The table of a set: a line for each layer and number of threads."""
    problems, by_layer = problem_set.make(), seconds_by_method(rows)
    own_rows = {(row["layer"], row["threads"], row["method"]): row for row in rows}
    titles = list(dict.fromkeys(entry.comparison.title for entry in compared(problem_set, rows)))
    comparisons = [comparison for comparison in problem_set.comparisons if comparison.title in titles]
    lines = []
    for (layer, threads), seconds in by_layer.items():
        own = own_rows[layer, threads, problem_set.answer(seconds)]
        ratios = [comparison.ratio(seconds) for comparison in comparisons]
        lines.append([layer, described(problems[layer]), str(threads), f"{own['seconds'] * 1e6:.0f}",
                      own["kernel"].partition(".")[2], f"{own['gflops']:.0f}",
                      f"{own['error']:.0e}" if "error" in own else "–",
                      *("–" if ratio is None else f"{ratio:.2f}" for ratio in ratios)])
    return markdown(["layer", "sizes", "threads", "ours, µs", "family", "GFLOP/s", "error", *titles], lines, left=2)


def page(results: Results) -> Page:
    """Make the page of the results."""
    comparisons = all_compared(results)
    names = list(dict.fromkeys(entry.problem_set.name for entry in comparisons))
    claims = {entry.problem_set.name: f"{entry.problem_set.title} {entry.mean:.2f} ({entry.comparison.title})"
              for entry in comparisons if entry.comparison is entry.problem_set.comparisons[0]}  # the last is kept
    parts = []
    for name in names:
        problem_set, part = PROBLEM_SETS[name], results[name]
        reading = "\n".join(f"- {sentence}" for sentence in problem_set.reading)
        parts.append(f"## {problem_set.title}\n\n{measured_on(part)}\n\n{reading}\n\n"
                     f"{table(problem_set, part['rows'])}")
    return Page(
        "layers", "Layers compared with PyTorch, OpenVINO and ONNX Runtime",
        f"The others' times divided by those of our kernels, as geometric means: {'; '.join(claims.values())}."
        if claims else "No layer was measured.",
        f"python -m benchmarks layers --problems {','.join(names)} --out docs",
        "\n\n".join([summary(comparisons), *parts]),
        "Each table below names the machine and the date of its measurement.",
        "A ratio is a peer's time divided by ours: above 1, ours is faster. `error` is the largest difference divided "
        "by the largest value of a reference in float64. All methods of a layer run in one process and take turns in "
        "random order; the median of the rounds, brought to one level, counts.",
        figure="The ratios of all layers, a dot for each, and their geometric means, by comparison")


@style()
def draw(results: Results, path: Path) -> None:
    """Draw a line of dots for each comparison: the ratio of each layer and, larger, the geometric mean."""
    comparisons = all_compared(results)[::-1]
    figure, axis = panel((7.6, 0.6 + 0.22 * len(comparisons)))
    for height, entry in enumerate(comparisons):
        axis.plot(list(entry.ratios.values()), [height] * len(entry.ratios), ".", color=GREY, markersize=4)
        axis.plot([entry.mean], [height], "D", color=BLUE, markersize=5)
    axis.axvline(1.0, color=BLACK, linewidth=0.8)
    axis.set_xscale("log")
    axis.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    axis.minorticks_off()
    axis.set_yticks(range(len(comparisons)), [
        f"{entry.problem_set.name}, {entry.threads} thread{'s' * (entry.threads > 1)}: {entry.comparison.title}"
        for entry in comparisons])
    axis.grid(visible=False, axis="y")
    axis.grid(visible=True, axis="x")
    axis.set_xlabel("the peer's time divided by ours")
    save(figure, path)
