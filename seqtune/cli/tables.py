"""Tables of answers on standard output."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..api.results import NEW_CPU, duration
from ..errors import printable

if TYPE_CHECKING:
    from seqtune.kernels.devices.device import Device
    from seqtune.predictor.confidence.explanation import Explanation

    from ..api.replaying import Replayed
    from ..api.results import Demonstration, Devices, Prediction, Proposal
    from ..api.tuning.results import TuningReport

WIDTH = 200  # columns where there is no terminal
_LONG = ("configuration", "problem", "winner", "status", "model", "means")  # columns that may wrap
_COLUMNS = """measured: 0 is the first proposal, unmeasured; n is the best of n measured proposals
share: geometric mean over the problems of best known time / time of the pick
share_low, share_high: its 95 % interval (bootstrap of problems); ceiling: share of an oracle whose choice is re-tested
low, high: 95 % interval of seqtune's share minus this method's; worse: seqtune is below it, the whole interval is
regret_ratio: (1 - share) / (1 - share of fixed); unmeasured: configurations without a measurement, left out"""


class _Console(Console):
    """A console that shows foreign texts, such as the words of a library, without what they may tell a terminal."""

    def render_str(self, text: str, *args: Any, **options: Any) -> Text:
        return super().render_str(printable(text), *args, **options)


_out = _Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)


def _table(*columns: str, right: Sequence[str] = ()) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        wraps = column in _LONG
        table.add_column(column, justify="right" if column in right else "left", no_wrap=not wraps,
                         overflow="fold" if wraps else "ellipsis")
    return table


def devices(listing: Devices) -> None:
    """Print the devices with their main facts, then the unavailable backends."""
    table = _table("", "device", "bits", "threads", "units", "L1", "L2", "L3", "GFLOP/s", "GB/s",
                   right=("bits", "threads", "units", "L1", "L2", "L3", "GFLOP/s", "GB/s"))
    alike: dict[str, list[str]] = {}
    for alias, device in listing.listed:
        table.add_row(alias, device.name, str(device.vector_bits), str(device.threads), str(device.compute_units),
                      *(_size(size) for size in (device.l1_bytes, device.l2_bytes, device.l3_bytes)),
                      f"{device.peak_gflops:.0f}" if device.peak_gflops else "-",
                      f"{device.bandwidth_gbs:.0f}" if device.bandwidth_gbs else "-")
        alike.setdefault(f"{device.model} ({device.architecture}), {device.toolchain}", []).append(alias)
    if listing.listed:
        _out.print(table)
    for text, aliases in alike.items():
        _out.print(f"{' '.join(aliases)}: {text}", markup=False, soft_wrap=True)
    for alias, device in listing.listed:
        if device.l1_gbs:
            _out.print(f"{alias}: {_measured_reads(device)}", markup=False, soft_wrap=True)
    if listing.doubt:
        _out.print(listing.doubt, soft_wrap=True)
    for backend, reason in listing.unavailable.items():
        _out.print(f"{backend} is unavailable: {reason}", markup=False)
    if listing.new_cpu:
        _out.print(NEW_CPU, soft_wrap=True)
    if listing.described:
        _described(listing.described)
    else:
        _out.print("described: `seqtune devices --all` lists GPUs to predict and compile for without having them")
    _out.print("replay: `seqtune tune --replay DATASET` searches the records of any device, and measures nothing")


def _measured_reads(device: Device) -> str:
    """Reads from caches, waking threads and gathering, as text."""
    reads = ", ".join(f"{level} {rate:.0f}" for level, rate in (
        ("L1", device.l1_gbs), ("L2", device.l2_gbs), ("L3", device.l3_gbs)) if rate)
    wakes = f"; threads wake in {device.wake_microseconds:.2g} us" if device.wake_microseconds else ""
    return f"reads {reads} GB/s{wakes}; {device.gather_nanoseconds:.2g} ns to gather a number"


def _described(devices: Sequence[Device]) -> None:
    """Print the GPUs of the table of accelerators with their main facts, each model under its first name."""
    table = _table("described", "model", "arch.", "units", "L2", "GFLOP/s", "GB/s",
                   right=("units", "L2", "GFLOP/s", "GB/s"))
    models: dict[str, Device] = {}
    for device in devices:
        models.setdefault(device.model, device)
    for device in models.values():
        table.add_row(device.name, device.model, device.architecture, str(device.compute_units),
                      _size(device.l2_bytes), f"{device.peak_gflops:.0f}", f"{device.bandwidth_gbs:.0f}")
    _out.print(table)
    names = {backend: [device.name.partition(":")[2] for device in devices if device.backend == backend]
             for backend in ("cuda", "triton")}
    without = ", ".join(name for name in names["cuda"] if name not in names["triton"])
    _out.print("each cuda:NAME of this table is also described for Triton, as triton:NAME"
               + (f", except {without}" if without else ""))


def _size(size: int) -> str:
    if not size:
        return "-"
    return f"{size // 1024}K" if size < 1 << 20 else f"{size / (1 << 20):.4g}M"


def prediction(answer: Prediction) -> None:
    """Print the candidates, the default and, where measured, the winner."""
    _out.print(f"{answer.problem.brief()} on {answer.device.name}", markup=False)
    measured = answer.verified
    columns = ["", "configuration"]
    with_chances = any(candidate.probability is not None for candidate in answer.candidates)
    columns += ["probability"] if with_chances else []
    with_confidence = any(candidate.confidence is not None for candidate in answer.candidates)
    columns += ["expected share", "80 %"] if with_confidence else []
    columns += ["time", "spread", "error", "status"] if measured else []
    table = _table(*columns, right=("probability", "expected share", "80 %", "time", "spread", "error"))

    def add(label: str, candidate: Proposal) -> None:
        cells = [label, f"{candidate.configuration.kernel} {candidate.configuration.brief()}"]
        if with_chances:
            cells.append("-" if candidate.probability is None else f"{candidate.probability:.3f}")
        if with_confidence:
            expected = candidate.confidence
            cells += ["-", "-"] if expected is None else [
                f"{expected.share:.2f}", f"{expected.low:.2f} to {expected.high:.2f}"]
        if measured and candidate.measurement is None:  # there was no time for it
            cells += ["-"] * 4
        elif candidate.measurement is not None:
            measurement = candidate.measurement
            cells += [duration(measurement.seconds), f"{100 * measurement.spread:.1f} %",
                      "-" if measurement.error is None else f"{measurement.error:.1e}",
                      measurement.status.value + (f": {measurement.message}" if measurement.message else "")]
        table.add_row(*cells)

    for number, candidate in enumerate(answer.candidates, start=1):
        add(str(number), candidate)
    add("default", answer.default)
    _out.print(table)
    if answer.confidence is not None:
        _out.print(f"the first proposal: {answer.confidence}")
    for remark in answer.remarks():
        _out.print(remark, markup=False, soft_wrap=True)
    if measured:
        _out.print(f"winner: {answer.conclusion()}", markup=False, soft_wrap=True)
        took, given = answer.elapsed_seconds, answer.budget_seconds
        if took is not None and given is not None:
            _out.print(f"verified in {duration(took)} of {duration(given)} (--seconds)")


def explanation(answer: Explanation) -> None:
    """Print why the first proposal was made."""
    _out.print("one value away from the first proposal: expected time, or the constraint that forbids it", markup=False,
               soft_wrap=True)
    rows([{"parameter": step.parameter, "value": str(step.value), "next": str(step.next_value),
           "means": step.reason or ("-" if step.slowdown is None else f"{step.slowdown:.2f}x the time")}
          for step in answer.steps])
    if answer.known:
        _out.print("the nearest problems of the shipped data, and their fastest configurations", markup=False,
                   soft_wrap=True)
        rows([{"problem": known.problem.brief(), "device": known.device.name,
               "winner": f"{known.winner.kernel} {known.winner.brief()}", "time": duration(known.seconds)}
              for known in answer.known])
    if answer.facts:
        _out.print("facts that decided: the second proposal's expected time over the first's, with the fact and with "
                   "the known ones' median instead (a simple ablation)", markup=False, soft_wrap=True)
        rows([{"fact": fact.fact, "value": f"{fact.value:g}", "median": f"{fact.median:g}",
               "lead": f"{fact.lead:.3f}", "without": f"{fact.lead_without:.3f}"} for fact in answer.facts])


def demo(demonstration: Demonstration) -> None:
    """Print a line for each problem and device."""
    table = _table("problem", "device", "winner", "default", "best", "speed-up", "GFLOP/s", "significant",
                   right=("default", "best", "speed-up", "GFLOP/s"))
    for answer in demonstration.predictions:
        winner = answer.winner
        seconds = None if winner.measurement is None else winner.measurement.seconds
        flop = answer.problem.names().get("flop")
        table.add_row(
            answer.problem.brief(), answer.device.name, f"{winner.configuration.kernel} {winner.configuration.brief()}",
            duration(answer.default.measurement.seconds if answer.default.measurement else None), duration(seconds),
            "-" if answer.speedup is None else f"{answer.speedup:.2f}x",
            f"{flop / seconds / 1e9:.0f}" if isinstance(flop, int) and seconds else "-",
            "yes" if answer.significant else "no")
    _out.print(table)
    for backend, reason in demonstration.unavailable.items():
        _out.print(f"{backend} is left out: {reason}", markup=False)


def tuned(outcome: TuningReport) -> None:
    """Print a line for each problem."""
    table = _table("problem", "trials", "new", "failed", "default", "best", "sure", "configuration",
                   right=("trials", "new", "failed", "default", "best", "sure"))
    for result in outcome.results:
        best = result.best
        table.add_row(result.problem.brief(), str(result.trials), str(result.measured), str(result.failed),
                      duration(result.default_seconds), duration(result.best_seconds),
                      "-" if result.confidence is None else f"{result.confidence:.0%}",
                      "-" if best is None else f"{best.kernel} {best.brief()}")
    _out.print(table)
    for result in outcome.results:
        for remark in result.remarks():
            _out.print(f"{result.problem.brief()}: {remark}", markup=False, soft_wrap=True)
    for problem, reason in outcome.skipped:
        _out.print(f"{problem.brief()}: not tuned: {reason}", markup=False, soft_wrap=True)
    for remark in outcome.remarks():
        _out.print(remark, markup=False, soft_wrap=True)
    source = f"journal: {outcome.journal}" if outcome.replayed is None else (
        f"replayed from {outcome.replayed}, {outcome.device.name}: nothing was measured, and no journal is kept")
    _out.print(source, markup=False, soft_wrap=True)
    if outcome.interrupted:
        _out.print("stopped: the times are those of trials, and no finals were held for what was not finished",
                   markup=False, soft_wrap=True)
    elif outcome.replayed is None:
        _out.print("times are those of the finals, where the fastest and the default are measured again, interleaved, "
                   "because the least of many trials is too low; sure: confidence that the best is faster than the "
                   "runner-up (signed-rank test)")


def evaluation(shares: Sequence[Mapping[str, Any]]) -> None:
    """Print the rows of an evaluation, and what their columns mean.

    A row about a solver becomes a line, followed by one for each of its parts; rows without a solver follow, in a table
    of their own.
    """
    lines = []
    for row in shares:
        if "solver" in row:
            own = {name: value for name, value in row.items() if name != "parts"}
            names = {name: own.pop(name) for name in ("device", "solver")}
            scores = {"seqtune": own, **row.get("parts", {})}
            lines += [{**names, "method": method, **score} for method, score in scores.items()]
    rows(lines)
    others = [row for row in shares if "solver" not in row]
    rows(others)
    if any("method" in row for row in others):
        _out.print(_COLUMNS, markup=False, soft_wrap=True)


def rows(records: Sequence[Mapping[str, Any]], right: Sequence[str] = ()) -> None:
    """Print a table of rows. Numbers are right-aligned, and so are the columns in `right`."""
    if not records:
        return
    columns = list(records[0])
    numbers = [name for name in columns if name in right or isinstance(records[0][name], int | float)]
    table = _table(*columns, right=numbers)
    for row in records:
        table.add_row(*(_cell(row[name]) for name in columns))
    _out.print(table)


def replayed(result: Replayed) -> None:
    """Print rows by budget, then the medians, and what they mean."""
    rows(result.rows())
    rows([{name: f"{value:g}" if isinstance(value, float) else value for name, value in row.items()}
          for row in result.medians()], right=("to_95", "to_99"))
    _out.print("share_mean: optimum / best result, mean over the repeats; share_sem: its standard error\nto_95, to_99: "
               "median evaluations until that share; -: half of the searches end without", markup=False)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value))
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def imported(summary: Mapping[str, Any]) -> None:
    """Print what an import read from each file, and what it left out and why."""
    rows([{"file": Path(file["path"]).name,
           **{name: len(value) if name == "solvers" else value for name, value in file.items()
              if name not in ("path", "skipped")},
           "left_out": sum(file["skipped"].values())} for file in summary["files"]])
    for file in summary["files"]:
        for reason, count in file["skipped"].items():
            _out.print(f"{Path(file['path']).name}: left out {count}: {reason}", markup=False, soft_wrap=True)
    report({name: summary[name] for name in ("out", "records", "problems")})


def trained(fields: Mapping[str, Any]) -> None:
    """Print the report of a training without its epochs, which the progress showed and --json lists."""
    report({name: value for name, value in fields.items() if name != "history"})
    if "cross_validation" in fields:
        _out.print("share_low, share_high: 95 % interval of the share; low, high: that of seqtune's share minus the "
                   "method's", markup=False, soft_wrap=True)


def report(fields: Mapping[str, Any], indent: str = "") -> None:
    """Print names and values; nested ones indented, lists of objects as tables."""
    for name, value in fields.items():
        if isinstance(value, Mapping | list | tuple) and not value:
            _out.print(f"{indent}{name}: none", markup=False)
        elif isinstance(value, Mapping):
            _out.print(f"{indent}{name}:", markup=False)
            report(value, indent + "  ")
        elif isinstance(value, Sequence) and value and isinstance(value[0], Mapping):
            _out.print(f"{indent}{name}:", markup=False)
            rows(value)
        else:
            _out.print(f"{indent}{name}: {_cell(value)}", markup=False, soft_wrap=True)
