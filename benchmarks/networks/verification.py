"""The gain of networks by verification in a budget: `python -m benchmarks verification [--budget 60]`.

Each network is optimised twice by prediction alone, and once verified within the budget, with a journal of its own. The
three then compute in turns, in random order. `ratio` is the predicted network's time over the verified one's, by the
medians of levelled rounds. `control` is the same ratio of the two predicted ones, which are equal, and `spread` the
interquartile range of its rounds: a ratio below 1 less the spread is a loss. `used` is what the verification took of
the budget.

`--checkpoint` names another predictor, such as one that was trained without this machine's data:
`python -m benchmarks machines --leave MACHINE --few 0 --work FOLDER` leaves it in `FOLDER/without MACHINE`. With
`--state FILE`, the rows are kept in a file, so that an interrupted run goes on: networks with a row are not measured
again.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.common.contest import geometric_mean
from benchmarks.common.program import OneLineParser, llvm_devices, positive, several, warm_threads
from benchmarks.common.report import Row, machine, markdown
from seqtune.errors import FormatError, MisuseError
from seqtune.kernels.files import read_bounded, write_whole
from seqtune.tuner.measuring.budget import NETWORK, SECONDS

from .contest import REST_SECONDS, SAMPLE_SECONDS, WARM_UP_SECONDS
from .models import NETWORKS, seeded

if TYPE_CHECKING:
    from seqtune.kernels.devices.device import Device
    from seqtune.networks.optimized import Optimized
    from seqtune.networks.selection.reports import NetworkVerification

PREDICTED, CONTROL, VERIFIED = "predicted", "control", "verified"
OPTIONS = ("budget", "seconds", "threads", "compare", "checkpoint", "rounds")  # on which the rows depend
LARGEST_STATE = 10_000_000  # bytes; a row has about 2000


def measure(name: str, device: Device, given: argparse.Namespace) -> Row:
    """Optimise one network in all three ways, and time them in turns."""
    import torch

    from seqtune.tuner.measuring.timed_calls import time_calls

    model, inputs = seeded(name)
    networks: dict[str, Optimized] = {}
    elapsed: dict[str, float] = {}
    with TemporaryDirectory() as folder:
        for form in (PREDICTED, CONTROL, VERIFIED):
            say(f"{name}: {form}")
            journal = Path(folder) / f"{'verified' if form == VERIFIED else 'predicted'}.sqlite"
            began = time.monotonic()
            networks[form] = optimised(model, tuple(inputs), device, journal, form == VERIFIED, given)
            elapsed[form] = time.monotonic() - began
        gc.collect()
        with torch.no_grad():
            runs = {form: partial(network, *inputs) for form, network in networks.items()}
            samples = time_calls(runs, given.rounds, SAMPLE_SECONDS, WARM_UP_SECONDS, REST_SECONDS)
    compiled: Any = networks[VERIFIED].model
    verdict = compiled.verdict
    return {"model": name, **row_of(samples, compiled.verification), "seconds": elapsed,
            "by_pytorch": verdict.peer if verdict is not None and verdict.peer_wins else None}


def optimised(model: Any, inputs: tuple[Any, ...], device: Device, journal: Path, verify: bool,
              given: argparse.Namespace) -> Optimized:
    """The network, optimised with the options of the command line."""
    from seqtune.pytorch import optimize

    return optimize(model, inputs, device=device, verify=verify, budget=given.budget, seconds=given.seconds,
                    compare=given.compare, checkpoint=given.checkpoint, journal=journal, progress=say)


def row_of(samples: Mapping[str, Sequence[float]], verification: NetworkVerification) -> Row:
    """The ratios of a network from the seconds of its rounds, and the report on its verification."""
    from seqtune.networks.verification.contest import contest_of
    from seqtune.tuner.measuring.comparison import typical

    ratio = contest_of(samples[PREDICTED], samples[VERIFIED]).ratio
    control = contest_of(samples[PREDICTED], samples[CONTROL])
    return {"ms": typical(samples)[VERIFIED] * 1e3, "ratio": ratio, "control": control.ratio, "spread": control.spread,
            "is_loss": ratio < 1 - control.spread, "in_budget": verification.used / verification.budget,
            "verification": asdict(verification), "samples": {form: list(rounds) for form, rounds in samples.items()}}


def table(rows: Sequence[Row]) -> str:
    """Make the table: a line for each network, and one sentence about all."""
    lines = []
    for row in rows:
        report = row["verification"]
        contest = "-" if report["ratio"] is None else f"{report['ratio']:.3f}"
        lines.append([row["model"], f"{row['ms']:.2f}", f"{row['ratio']:.3f}{' (loss)' if row['is_loss'] else ''}",
                      f"{row['control']:.3f}", f"{row['spread']:.3f}", contest,
                      f"{report['verified']}/{report['layers']}", f"{report['used']:.0f}/{report['budget']:.0f}",
                      row["by_pytorch"] or ""])
    header = ["network", "ms", "ratio", "control", "spread", "its own contest", "layers verified", "used, s",
              "by PyTorch"]
    return (f"{markdown(header, lines)}\n\nVerified networks have {geometric_mean([row['ratio'] for row in rows]):.3f} "
            f"times the speed of predicted ones (geometric mean of {len(rows)}; the control "
            f"{geometric_mean([row['control'] for row in rows]):.3f}); {sum(row['is_loss'] for row in rows)} lose more "
            f"than the control's spread; at most {max(row['in_budget'] for row in rows):.2f} of the budget was used.")


def kept(state: Path | None, key: Mapping[str, Any]) -> dict[str, Row]:
    """The rows of an earlier run by network; `key` holds what the rows depend on, by name.

    Raises FormatError for another file, and MisuseError for rows of other options or of another machine.
    """
    if state is None or not state.exists():
        return {}
    try:
        content = json.loads(read_bounded(state, LARGEST_STATE))
        same = all(content[name] == value for name, value in key.items())
        rows = {row["model"]: row for row in content["rows"]}
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{state} holds no rows of this program: {error!r:.100}") from None
    if not same:
        raise MisuseError(f"{state} was measured with other options or on another machine; name another --state")
    return rows


def say(line: str) -> None:
    """Tell what is done now."""
    print(line, file=sys.stderr, flush=True)


def run(given: argparse.Namespace) -> None:
    """Measure the networks and print the table or the JSON object."""
    device, = llvm_devices([given.threads])
    warm_threads(given.threads)
    facts = machine([device])
    key = {"options": {name: getattr(given, name) for name in OPTIONS},
           "machine": {name: fact for name, fact in facts.items() if name != "date"}}
    rows = kept(given.state, key)
    for name in given.models:
        if name not in rows:
            rows[name] = measure(name, device, given)
            if given.state is not None:
                write_whole(given.state, json.dumps({**key, "rows": list(rows.values())}) + "\n")
    asked = [rows[name] for name in given.models]
    print(json.dumps({**key, "machine": facts, "rows": asked}, allow_nan=False) if given.json else table(asked))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    parser.add_argument("--models", type=several(list(NETWORKS)), default=list(NETWORKS), metavar="A,B",
                        help=f"networks: {', '.join(NETWORKS)}")
    parser.add_argument("--threads", type=positive, default=2)
    parser.add_argument("--budget", type=float, default=NETWORK, help="seconds for verifying one network")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="most seconds for verifying one layer")
    parser.add_argument("--compare", choices=["inductor", "eager"], default="inductor")
    parser.add_argument("--checkpoint", default="default", help="name or folder of the predictor")
    parser.add_argument("--rounds", type=positive, default=20, help="samples of each form")
    parser.add_argument("--state", type=Path, metavar="FILE", help="keeps the rows; a second run goes on")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    given = parser.parse_args(arguments)
    with TemporaryDirectory() as folder:
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", folder)  # a fresh one: Inductor's time belongs to the budget
        run(given)
