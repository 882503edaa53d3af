"""SoakPage: what an hour under load did to the winners and to the memory, as figures, tables and a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.common.page import Page, Results, measured_on
from benchmarks.common.report import BLUE, GREY, ORANGE, Row, markdown, save, style
from benchmarks.robustness.soak_contest import NOISE, PERCENTILE, difference_of, noise_of, time_of

SETTLED = 600.0  # seconds after which the memory must not grow
MEGABYTE = 1e6
PARTS = ("driver", "workers", "together")


def summary(read: Mapping[str, Sequence[Row]]) -> Row:
    """The figures of the files of a state: by the name of the file, its rows."""
    contests = {row["problem"]: row for row in read["contest"]}
    quiet = {row["problem"]: row for row in read["quiet"]}
    rows = [{"problem": number, "text": contest["text"], "quiet": time_of(contest, quiet[number]["winner"]),
             "again": [time_of(contest, row["winner"]) for row in read["again"] if row["problem"] == number],
             "loaded": [time_of(contest, row["winner"]) for row in read["loaded"] if row["problem"] == number]}
            for number, contest in contests.items()]
    noise = noise_of(read["contest"])
    again = [row["again"][0] / row["quiet"] for row in rows if row["again"]]
    first = [row["loaded"][0] / row["quiet"] for row in rows if row["loaded"]]
    every = [time / row["quiet"] for row in rows for time in row["loaded"]]
    memory = [row for row in read["loaded-memory"] if "driver" in row]
    return {"rows": rows, "noise": noise, "differences": difference_of(read["contest"]),
            "agreement": {name: agreement(ratios, noise) for name, ratios in (
                ("again", again), ("first", first), ("every", every))},
            "runs": {name: run_figures(read[name]) for name in ("quiet", "again", "loaded")},
            "memory": {part: memory_figures(memory, part) for part in PARTS},
            "looks": [[row["at"], *(row[part] for part in PARTS)] for row in memory]}


def agreement(ratios: Sequence[float], noise: float) -> Row:
    """How ratios to the time of the quiet winner are distributed, and the share within the bound of noise."""
    if not ratios:
        return {"count": 0}
    values = np.asarray(ratios)
    return {"count": len(ratios), "share": float((values <= 1 + noise).mean()),
            "median": float(np.median(values)), "p5": float(np.percentile(values, 5)),
            "p95": float(np.percentile(values, 95)), "largest": float(values.max()),
            "mean": float(np.exp(np.log(values).mean()))}


def run_figures(rows: Sequence[Row]) -> Row:
    """The sums of the rows of a run."""
    counts, seconds = Counter[str](), sum(row["wall"] for row in rows)
    for row in rows:
        counts.update(row["counts"])
    trials = sum(row["trials"] for row in rows)
    return {"problems": len(rows), "passes": len(rows) / max(1, len({row["problem"] for row in rows})),
            "trials": trials, "seconds": seconds, "rate": trials / seconds if seconds else 0.0, "counts": dict(counts),
            "others": float(np.mean([row["others"] for row in rows])) if rows else 0.0}


def memory_figures(rows: Sequence[Row], part: str) -> Row:
    """A part of the memory, in bytes: early and late once it has settled, its peaks, and its slope an hour."""
    settled = [row for row in rows if row["at"] >= SETTLED]
    if len(settled) < 3:
        return {}
    at, values = (np.array([row[name] for row in settled], float) for name in ("at", part))
    begin, end = at <= at[0] + SETTLED, at >= at[-1] - SETTLED
    slope = float(np.polyfit(at, values, 1)[0]) * 3600
    return {"begin": float(np.median(values[begin])), "end": float(np.median(values[end])),
            "begin_peak": float(values[begin].max()), "peak": float(values.max()), "slope": slope,
            "minutes": float(rows[-1]["at"]) / 60}


def page(results: Results) -> Page:
    """The page of the results."""
    first, every, again = (results["agreement"][name] for name in ("first", "every", "again"))
    loaded, together = results["runs"]["loaded"], results["memory"]["together"]
    failed = sum(count for name, count in loaded["counts"].items() if name in ("timeout", "crash", "runtime"))
    growth, worker = (row["end"] / row["begin"] - 1 for row in (together, results["memory"]["workers"]))
    return Page(
        "soak", "An hour under load",
        f"With every CPU busy with other work, one process tuned for {together['minutes']:.0f} minutes: "
        f"{loaded['problems']} searches with {loaded['trials']:,} trials, of which {failed} failed to run. From the "
        f"minutes 10 to 20 to the last ten, the memory of this process and its worker changed by "
        f"{100 * growth:+.1f} %, that of the worker alone by {100 * worker:+.1f} %. On "
        f"{100 * first['share']:.0f} % of {first['count']} problems the winner is as fast as that of the quiet "
        f"machine, within {100 * results['noise']:.0f} %.",
        "python -m benchmarks.soak --minutes 60 --problems 60 --state soak --out docs",
        "\n\n".join((_winners(results), _runs(results), _memory(results))), measured_on(results),
        f"All winners of a problem were measured together on the quiet machine; a ratio is the time of a run's winner "
        f"divided by that of the quiet winner. A winner agrees if its ratio is at most 1 + noise. Noise is "
        f"{100 * results['noise']:.1f} %: the larger of {100 * NOISE:.0f} % and the {PERCENTILE}th percentile of the "
        f"differences between two times of one configuration in the same rounds, which was "
        f"{100 * results['differences']:.1f} %. `quiet again` has the same seed as "
        f"the first run: it shows how far searches on the quiet machine agree with each other, "
        f"{100 * again['share']:.0f} % here. The first loaded pass has that seed, too, the others have further ones.",
        (f"Other processes had {100 * loaded['others']:.0f} % of the CPUs during the hour: a busy process for each "
         f"CPU, and whatever else ran on the machine.",
         f"All loaded searches, {every['count']}, agree in {100 * every['share']:.0f} %; they are of several seeds.",
         "The memory of the worker depends on the problem that it measures: operands, kernels and buffers."),
        "Memory over the hour, and the ratios of the winners in rising order")


def _winners(results: Results) -> str:
    names = {"again": "quiet again", "first": "loaded, first pass", "every": "loaded, all passes"}
    return markdown(
        ["run", "searches", "agree", "median ratio", "5 %", "95 %", "largest"],
        [[name, f"{row['count']}", f"{100 * row['share']:.1f} %",
          *(f"{row[part]:.3f}" for part in ("median", "p5", "p95", "largest"))]
         for key, name in names.items() if (row := results["agreement"][key])["count"]])


def _runs(results: Results) -> str:
    rows = []
    for name, run in results["runs"].items():
        counts = run["counts"]
        rows.append([name, f"{run['problems']}", f"{run['trials']:,}", f"{run['rate']:.1f}",
                     f"{100 * run['others']:.0f} %",
                     *(f"{100 * counts.get(marked, 0) / max(1, counts.get(samples, 0)):.2f} %" for marked, samples in (
                         ("disturbed", "samples"), ("final_disturbed", "final_samples"))),
                     f"{run['trials'] - counts.get('correct', 0)}"])
    return markdown(["run", "searches", "trials", "trials/s", "others' share of the CPUs", "marked samples",
                     "marked in finals", "failures"], rows)


def _memory(results: Results) -> str:
    names = {"driver": "tuning process, RSS", "workers": "worker, RSS", "together": "both, PSS"}
    rows = [[name, *(f"{row[part] / MEGABYTE:.1f}" for part in ("begin", "end")),
             f"{100 * (row['end'] / row['begin'] - 1):+.1f} %",
             *(f"{row[part] / MEGABYTE:.1f}" for part in ("begin_peak", "peak")),
             f"{row['slope'] / MEGABYTE:+.1f}"]
            for part, name in names.items() if (row := results["memory"][part])]
    return markdown(["memory, MB", "minutes 10 to 20, median", "last ten minutes, median", "change",
                     "peak, minutes 10 to 20", "peak", "slope, MB/h"], rows)


def draw(path: Path, results: Results) -> None:
    """Draw the memory over the time, and the ratios in rising order."""
    pyplot = style()
    figure, axes = pyplot.subplots(1, 2, figsize=(8.4, 3.0))
    looks = np.array(results["looks"])
    for column, (name, colour) in enumerate((("tuning process", BLUE), ("worker", GREY), ("both", ORANGE)), 1):
        axes[0].plot(looks[:, 0] / 60, looks[:, column] / MEGABYTE, color=colour, label=name, linewidth=1)
    axes[0].set_ylim(0, None)
    axes[0].set_xlabel("minutes")
    axes[0].set_title("memory, MB", loc="left")
    axes[0].legend(frameon=False)
    for name, colour in (("again", GREY), ("loaded", ORANGE)):
        ratios = sorted(row[name][0] / row["quiet"] for row in results["rows"] if row[name])
        axes[1].plot(range(1, len(ratios) + 1), ratios, "o", markersize=3, color=colour,
                     label="quiet again" if name == "again" else "loaded, first pass")
    axes[1].axhline(1 + results["noise"], color=GREY, linewidth=0.8)
    axes[1].set_xlabel("problem")
    axes[1].set_title("time / time of the quiet winner", loc="left")
    axes[1].legend(frameon=False)
    save(figure, path)
