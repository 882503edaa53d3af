"""Page of the networks, computed from the rows of the JSON file."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.common.contest import geometric_mean
from benchmarks.common.page import Page, Results, evaluated, measured_on
from benchmarks.common.report import Row, interval, markdown, number

from .case import TOLERANCES
from .rows import FLOORS, MEAN, PEER_NAMES

PREDICTED = "predicted_layers"  # the part of the JSON file with the predictions for layers
ALL = "all"  # the last kind of layers
COLUMNS = {("seqtune", 0): "seqtune, first", ("seqtune", 3): "best of 3", ("seqtune", 5): "best of 5",
           ("transformer", 0): "transformer", ("trees", 0): "trees", ("nearest", 0): "nearest", ("fixed", 0): "fixed",
           ("random", 0): "random", ("default", 0): "default"}


def table(rows: Sequence[Row]) -> str:
    """Make the tables: one for each precision and number of threads, a line for each network and the mean."""
    tables = []
    for dtype, threads in dict.fromkeys((row["dtype"], row["threads"]) for row in rows):
        group = [row for row in rows if (row["dtype"], row["threads"]) == (dtype, threads)]
        lines = [[row["model"], number(row.get("ms")), *(number(row[f"vs_{name}"]) for name in PEER_NAMES),
                  number(row["vs_best"]), _count(row.get("pytorch_operations_left")), _small(row.get("error")),
                  number(row.get("seconds_to_ready"))] for row in group]
        header = ["network", "ms", *PEER_NAMES, "best peer", "PyTorch's operations", "error", "seconds to ready"]
        tables.append(f"**{dtype}, {threads} thread{'s' if threads > 1 else ''}**\n\n" + markdown(header, lines))
    return "\n\n".join(tables)


def _count(value: int | None) -> str:
    return "–" if value is None else str(value)


def _small(value: float | None) -> str:
    return "–" if value is None else f"{value:.0e}"


def absent(rows: Sequence[Row]) -> list[str]:
    """A sentence for each contestant that was left out, and its reasons."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for name, reason in row.get("left_out", {}).items():
            reasons.setdefault((name, reason), []).append(f"{row['model']} ({row['dtype']}, {row['threads']})")
    return [f"{name} is left out of {', '.join(dict.fromkeys(networks))}: {reason.rstrip('.')}."
            for (name, reason), networks in reasons.items()]


def predicted(part: Results) -> str:
    """The predictions for the layers of networks that no model learned from."""
    rows = part["rows"]
    by_kind: dict[str, dict[tuple[str, int], Row]] = {}
    for row in rows:
        by_kind.setdefault(row["device"], {})[row["method"], row["measured"]] = row
    columns = [column for column in COLUMNS if column in by_kind[ALL]]
    lines = [[kind, str(cells["seqtune", 0]["problems"]), *(f"{cells[column]['share']:.3f}" for column in columns)]
             for kind, cells in by_kind.items()]
    first, five, default = (by_kind[ALL][column] for column in (("seqtune", 0), ("seqtune", 5), ("default", 0)))
    return "\n\n".join([
        "## Layers of networks that no model learned from",
        f"The shipped checkpoint's first proposal reaches {first['share']:.3f} "
        f"{interval(first['share_low'], first['share_high'])} of the best known speed and the best of five "
        f"{five['share']:.3f}, where the safe default reaches {default['share']:.3f} (geometric means over "
        f"{first['problems']} cases, a problem on a device): `python -m benchmarks predicted_layers --out docs`.",
        evaluated(part, "the shipped data set"),
        f"Held out are {', '.join(part['networks'])}: no model learns from their problems or from problems near to "
        "them. Layers are in the form of the PyTorch integration: NHWC, with bias and, where a network has an "
        "activation, a ReLU. Of each kind, some problems are measured, and their spaces not completely: random "
        "configurations, proposals of a model and neighbours of the best; a method chooses among these.",
        "Shares of the best known speed of the first proposal without a measurement and of the best of 3 and 5 "
        "measured proposals; then the first proposals of the transformer and of the trees alone, of the most similar "
        "training problem, and of the configuration that is best on average; a random one, and the safe default.",
        markdown(["kind", "cases", *(COLUMNS[column] for column in columns)], lines)])


def quote(results: Results, link: str) -> str:
    """The speed of predicted networks in fp32, for a file whose links call the folder of the results `link`."""
    known = [row for row in results["rows"] if row["dtype"] == "fp32" and "seconds_to_ready" in row]
    threads = max(row["threads"] for row in known)
    rows = [row for row in known if row["threads"] == threads and row["vs_best"] and row["vs_unverified"]]
    ratios = [row["vs_best"] / row["vs_unverified"] for row in rows]
    ready = [row["unverified_seconds_to_ready"] for row in rows]
    return (f"By prediction alone, {len(rows)} networks ran in fp32 on {threads} threads of "
            f"{results['machine']['cpu']} at **{number(geometric_mean(ratios))}** times the speed of each one's "
            "fastest peer (OpenVINO, ONNX Runtime, zentorch, torch.compile; geometric mean, least "
            f"{number(min(ratios))}), ready in {min(ready):.0f} to {max(ready):.0f} s: "
            f"[Networks and their peers]({link}/networks.md).")


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows = results.get("rows", [])
    claims = [f"{row['dtype']} with {row['threads']} thread{'s' if row['threads'] > 1 else ''}: "
              f"{number(row['vs_best'])} times the speed of the best peer of each network (geometric mean of "
              f"{row['networks']}; least {number(row['least'])}"
              + (f"; below {FLOORS[row['dtype']]}: {', '.join(row['below'])}" if row["below"] else "") + ")"
              for row in rows if row["model"] == MEAN]
    return Page(
        "networks", "Networks and their peers", "; ".join(claims) + "." if claims else "No network was measured.",
        "python -m benchmarks networks --out docs",
        "\n\n".join(filter(None, [table(rows), predicted(results[PREDICTED]) if PREDICTED in results else ""])),
        measured_on(results),
        "`ms` is our time of one call. The columns named after a peer are its time divided by ours. `eager` is "
        "unchanged PyTorch, `compile` torch.compile, `max_autotune` the same with constant weights and a search among "
        "kernels. `PyTorch's operations` counts those that one call of ours makes and that compute something. `error` "
        "is the largest difference from PyTorch's results in fp32, divided by the largest result.",
        ("Batch 1 and random weights; texts of 128 tokens, images of 224 by 224, sound of 30 seconds. `GPT-2-decode` "
         "computes one token with a cache of 128.",
         "All contestants of a network run in one process and take turns in random order; a row shows medians over "
         "rounds that are brought to one level.",
         "Results must agree within " + " and ".join(f"{allowed:.0e} ({dtype})" for dtype, allowed in
                                                     TOLERANCES.items()) + "; a contestant outside is not timed.",
         "`seconds to ready` lasts from a model in memory to the second answer; the peers' are in the JSON file.",
         *absent(rows)))
