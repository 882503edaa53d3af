"""Evaluate predictions, the main result: `python -m benchmarks results --out docs`.

Every method is evaluated on the shipped held-out problems with their recorded times: the first proposal without a
measurement, and the best of 3 and of 5 measured proposals. The program writes the page, results.json and results.svg,
and prints the tables as Markdown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.common.evaluation import BEST_OF, COUNTS, ceiling_cell
from benchmarks.common.page import Page, Results, add_out, check_ready, page_from, publish, replayed
from benchmarks.common.program import OneLineParser
from benchmarks.common.progress import say
from benchmarks.common.quotes import write_quotes
from benchmarks.common.report import Row, interval, machine, markdown
from benchmarks.prediction.checkpoint_parts import PartShares, paragraph, part_cases, parts_table, relation
from seqtune.figures.picture import save
from seqtune.figures.predictions import EVERYWHERE, METHODS, shares
from seqtune.predictor.learning.tasks.shares import EvaluationRow

QUOTED = {  # method -> its name in the table that README.md and docs/index.md quote
    "seqtune": "**seqtune**", "trees": "its boosted trees alone", "nearest": "the most similar known problem's best",
    "fixed": "the configuration that is best on average", "random": "a random configuration",
    "default": "the safe default"}

READING = """The second table compares the checkpoint with other methods. The figures are shares of the best known
speed, as geometric means over the held-out problems; 1 is the speed of the fastest known configuration. `measured` 0
is the first proposal without any measurement; 3 and 5 are the best of 3 and of 5 measured proposals.

All methods were trained on the same data and are compared on the same held-out problems:

- `seqtune` is the shipped checkpoint (bold, whether it is the best or not): the transformer's beam, ordered by the
  mean of its judge and the checkpoint's own boosted trees;
- `transformer`: its beam and its judge alone;
- `trees`: the checkpoint's boosted trees alone, which rank every valid configuration;
- `nearest`: the best configurations of the most similar training problem;
- `fixed`: the configurations that are best for the device's training problems on average;
- `random`: drawn from the valid configurations;
- `default`: the safe default configuration of the kernel."""
PARTS = """The first table shows each part of the shipped checkpoint alone, on the same problems: the transformer with
its beam and its judge, the boosted trees, which rank every valid configuration, and both as shipped. In brackets: 95 %
intervals, by a bootstrap of the problems with all their devices."""
CAVEATS = (
    "Most of the transformer's training labels come from boosted trees.",
    "Whole networks are held out (MobileNet-V2, parts of VGG-16 and of the transformers' matrix products; on one "
    "machine the layers of ten networks), and no problem near a held-out one is used for training. "
    "Five devices have only 8 to 26 held-out problems. Spaces of the ten networks' layers were measured in part.",
    "The times come from a shared machine. A trial that took much longer than boosted trees expected was measured "
    "again, and promising ones up to four times; the least time counts. The dozen fastest trials of a held-out "
    "problem, and the dozen that trees expect to be fastest, were then measured interleaved, in two builds.",
    "The width of the beam and the weight of the trees were chosen with these figures in view, but in a flat region: "
    "neighbouring choices differ by up to a hundredth.",
    "One training is reported; another seed can differ by a few hundredths on a device.",
)


def pooled(rows: Sequence[Row]) -> list[Row]:
    """Make a row over all devices for each method and number of measured proposals: the geometric mean of all cases."""
    by_key: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        by_key.setdefault((row["method"], row["measured"]), []).append(row)
    made = []
    for (method, measured), same in by_key.items():
        cases = sum(row["problems"] for row in same)
        log = sum(row["problems"] * math.log(row["share"]) for row in same) / cases
        made.append({"device": EVERYWHERE, "method": method, "measured": measured, "share": math.exp(log),
                     "problems": cases, "low": None, "ceiling": None})
    return made


def table(rows: Sequence[Row]) -> str:
    """Make the second table: a line for each device and number of measured proposals, a column for each method."""
    rows = [*rows, *pooled(rows)]
    methods = [name for name in METHODS if any(row["method"] == name for row in rows)]
    with_ceiling = any(row.get("ceiling") is not None for row in rows)
    lines = []
    for device in dict.fromkeys(row["device"] for row in rows):
        for count in COUNTS:
            by_method = {row["method"]: row for row in rows if row["device"] == device and row["measured"] == count}
            shared = next(iter(by_method.values()))  # problems and ceiling are the same for all methods
            first = f"{device} ({shared['problems']})" if count == COUNTS[0] else ""
            lines.append([first, str(count), *(_cell(by_method[name]) for name in methods),
                          *([ceiling_cell(shared)] if with_ceiling else [])])
    return markdown(["device (problems)", "measured", *methods, *(["ceiling"] if with_ceiling else [])], lines)


def _cell(row: Row) -> str:
    share = f"{row['share']:.3f}"
    if row["method"] == "seqtune":
        spread = f" {interval(row['share_low'], row['share_high'])}" if "share_low" in row else ""
        return f"**{share}**{spread}"
    if row["low"] is None or row["low"] > 0:
        return share
    return share + ("†" if row["worse"] else "*")


def notes(rows: Sequence[Row]) -> str:
    """Explain the marks of the table, and compare the losses of the first proposal and the fixed configuration."""
    text = ""
    marked = [_cell(row)[-1] for row in rows]
    if "*" in [mark for mark, row in zip(marked, rows, strict=True) if row["method"] != "seqtune"]:
        text += " `*`: not distinguishable from seqtune (95 % paired bootstrap over the problems)."
    if "†" in marked:
        text += " `†`: better than seqtune (likewise)."
    if any("share_low" in row for row in rows):
        text += " In brackets: the 95 % interval of seqtune's share (bootstrap of the problems)."
    if any(row.get("ceiling") is not None for row in rows):
        text += (" `ceiling`: the share of an oracle that chooses the fastest configuration of some builds and is "
                 "measured again in another one.")
    ratios = {row["device"]: row["regret_ratio"] for row in rows if row["regret_ratio"] is not None}
    if ratios:
        text += " The loss of seqtune's first proposal divided by the loss of the best fixed configuration is: "
        text += ", ".join(f"{device} {ratio:.2f}" for device, ratio in ratios.items()) + "."
    if any(row["unmeasured"] for row in rows):
        text += " Where a space was not measured completely, every method chooses among its measured configurations."
    return text.strip()


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows = results["rows"]
    least, most = (limit(row["share"] for row in rows if row["method"] == "seqtune" and row["measured"] == 0)
                   for limit in (min, max))
    best, top = (limit(row["share"] for row in rows if row["method"] == "seqtune" and row["measured"] == COUNTS[-1])
                 for limit in (min, max))
    claim = (f"On held-out problems, the shipped checkpoint's first proposal reaches {least:.3f} to {most:.3f} of "
             f"the best known speed, depending on the device, and the best of {COUNTS[-1]} measured proposals "
             f"{best:.3f} to {top:.3f}.")
    parts = results["parts"]
    return Page(
        "results", "Predictions", f"{claim} {paragraph(parts)}",
        "python -m benchmarks results --out docs",
        "\n\n".join([PARTS, parts_table(parts), READING, table(rows), notes(rows)]),
        replayed(results, "Evaluated"), "", CAVEATS,
        "Share of the best known speed over the number of measured proposals, by device")


def quote(results: Results, link: str) -> str:
    """The shares over all cases, for a file whose links call the folder of the results `link`."""
    rows = pooled(results["rows"])
    lines = [[title, *(f"{row['share']:.3f}" for count in COUNTS for row in rows
                       if (row["method"], row["measured"]) == (method, count))] for method, title in QUOTED.items()]
    text = markdown(["share of the best known speed", *BEST_OF], lines)
    difference = PartShares(results["parts"]).difference("seqtune", "trees")
    return (f"{text}\n\nGeometric means over {rows[0]['problems']} cases (a problem on a device); no method learned "
            f"from these problems. Its first proposal is {relation(difference)} that of its trees. [Predictions]"
            f"({link}/results.md) has the command, intervals and caveats; a test on every machine computes [a sample]"
            f"({link}/headline.md) again.")


def draw(results: Results, path: Path) -> None:
    """Draw a panel for all devices, which has no intervals, and one for each."""
    save(shares([EvaluationRow(**{"share_low": row["share"], "share_high": row["share"], "ceiling": None, **row})
                 for row in [*pooled(results["rows"]), *results["rows"]]]), path)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    from seqtune.api.evaluating import read_measurements
    from seqtune.predictor.checkpoint import Checkpoint
    from seqtune.predictor.learning.tasks.evaluation import outcomes
    from seqtune.predictor.learning.tasks.shares import rows as rows_of
    from seqtune.predictor.translator.threads import one_thread

    parser = OneLineParser(__doc__)
    add_out(parser, required=True)
    parser.add_argument("--checkpoint", default="default")
    parser.add_argument("--data", type=Path, help="a data set (Parquet) other than the shipped one")
    given = parser.parse_args(arguments)
    check_ready(given.out)
    data = read_measurements(given.data)
    with one_thread():
        evaluated = outcomes(data, Checkpoint.load(given.checkpoint), tuple(METHODS), COUNTS, progress=say)
    rows = [row.to_json() for row in rows_of(evaluated)]
    keys = set(data.rows["device"][data.rows["problem"].isin(data.held_out)])
    results = {"machine": machine([device for key, device in data.devices.items() if key in keys]), "rows": rows,
               "parts": part_cases(evaluated)}
    publish(given.out, page, results, partial(draw, results))
    if given.out is not None:
        write_quotes(given.out)
    print(page_from(page, results).tables)
