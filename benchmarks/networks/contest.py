"""Contest of one network: all contestants in one process, which `python -m benchmarks networks` starts for each.

The peers are prepared first, then our own contestants; each one's first answers are compared with those of unchanged
PyTorch in fp32, and only those within the precision's tolerance are timed. A contestant that is missing, fails or
computes a wrong result is left out with its reason.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.common.contest import REST_SECONDS, WARM_UP_SECONDS
from benchmarks.common.program import llvm_devices, warm_threads
from benchmarks.common.progress import say
from seqtune.errors import SeqtuneError, UnavailableError, one_line
from seqtune.tuner.measuring.deadline import NETWORK
from seqtune.tuner.measuring.timed_calls import time_calls

from .case import TOLERANCES, Case, Run, results_of
from .models import NETWORKS, seeded
from .ours import OurOptions, operations_of, ours
from .peers import LONGEST_REASON, PEERS, NetworkPeer, guarded

SAMPLE_SECONDS = 30e-3  # ten calls of the smallest networks, one call of the largest
OURS = "seqtune"
UNVERIFIED = "unverified"  # ours by prediction alone
OWN = (UNVERIFIED, OURS)  # our contestants, in the order in which they are prepared
Prepare = Callable[[Case, OurOptions, bool], Run]


@dataclass(frozen=True)
class Assignment:
    """One contest: a network, a precision, a number of threads, and how to compute it."""

    model: str
    dtype: str
    threads: int
    rounds: int = 20
    peers: Sequence[str] = tuple(peer.name for peer in PEERS)
    budget: float = NETWORK  # seconds for comparing the network with PyTorch's code
    checkpoint: str = "default"

    @property
    def name(self) -> str:
        """The name of the file of its outcome, without extension."""
        return f"{self.model.replace('/', '-')}.{self.dtype}.{self.threads}"


@dataclass
class ContestOutcome:
    """The outcome of a contest. All times are in seconds."""

    model: str
    dtype: str
    threads: int
    samples: dict[str, list[float]] = field(default_factory=dict)  # contestant -> seconds in each round
    errors: dict[str, float] = field(default_factory=dict)  # max|difference| / max|reference|
    ready: dict[str, float] = field(default_factory=dict)  # contestant -> seconds until the second answer
    left_out: dict[str, str] = field(default_factory=dict)  # contestant -> reason
    operations: dict[str, int] = field(default_factory=dict)  # PyTorch's operations in one call of ours
    export: float | None = None  # seconds of the ONNX file, in none of `ready`


def compare_all(assignment: Assignment, peers: Sequence[NetworkPeer] = PEERS,
                 prepare: Prepare = ours) -> ContestOutcome:
    """Run a contest in this process; `prepare` makes our contestants."""
    import torch

    device, = llvm_devices([assignment.threads])
    warm_threads(assignment.threads)
    model, inputs = seeded(assignment.model)
    outcome = ContestOutcome(assignment.model, assignment.dtype, assignment.threads)
    options = OurOptions(assignment.budget, assignment.checkpoint)
    with TemporaryDirectory() as folder, torch.no_grad():
        reference = [result.double() for result in results_of(model(*inputs))]
        case = Case(model, inputs, assignment.dtype, device, Path(folder), NETWORKS[assignment.model].convolutional)
        runs: dict[str, Run] = {}

        def enter(name: str, prepared: Callable[[], Run]) -> None:
            say(f"{assignment.name}: {name}")
            before = case.export_seconds or 0.0
            began = time.perf_counter()
            try:
                run = guarded(prepared)
                seconds = time.perf_counter() - began - ((case.export_seconds or 0.0) - before)
                error = error_of(run(), reference)
                if not error <= TOLERANCES[assignment.dtype]:
                    raise UnavailableError(f"its result is wrong: error {error:.1e}, allowed "
                                           f"{TOLERANCES[assignment.dtype]:.0e}")
            except SeqtuneError as problem:
                outcome.left_out[name] = one_line(problem, LONGEST_REASON)
                say(f"{assignment.name}: {name} is left out: {outcome.left_out[name]}")
                return
            runs[name], outcome.ready[name], outcome.errors[name] = run, seconds, error

        for peer in peers:
            if peer.name in assignment.peers:
                enter(peer.name, lambda peer=peer: peer.prepared(case))  # type: ignore[misc]
        for name in OWN:
            enter(name, lambda name=name: prepare(case, options, name == OURS))  # type: ignore[misc]
        gc.collect()
        say(f"{assignment.name}: {assignment.rounds} rounds")
        outcome.samples = {name: list(seconds) for name, seconds in time_calls(
            runs, assignment.rounds, SAMPLE_SECONDS, WARM_UP_SECONDS, REST_SECONDS).items()}
        if OURS in runs:
            outcome.operations = operations_of(runs[OURS])
        outcome.export = case.export_seconds
    return outcome


def error_of(results: Sequence[Any], reference: Sequence[Any]) -> float:
    """The largest error of the results; infinite where one has another shape or is no number."""
    import torch

    if len(results) != len(reference):
        return float("inf")
    worst = 0.0
    for result, expected in zip(results, reference, strict=True):
        tensor = torch.as_tensor(result)
        if tensor.shape != expected.shape:
            return float("inf")
        error = float((tensor.double() - expected).abs().max() / expected.abs().max())
        worst = max(worst, error) if error == error else float("inf")  # NaN differs from itself
    return worst


def main() -> None:
    """Run the contest whose assignment is the first argument, in JSON; write its outcome to the second."""
    assignment = Assignment(**json.loads(sys.argv[1]))
    Path(sys.argv[2]).write_text(json.dumps(asdict(compare_all(assignment))))


if __name__ == "__main__":
    main()
