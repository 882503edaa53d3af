"""Parts of a checkpoint, each alone: the transformer's beam, the boosted trees on every configuration, and both.

Replayed on held-out problems as `seqtune evaluate` does: every part chooses among the measured configurations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.common.report import Row, markdown

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset
    from seqtune.kernels.kernel import Configuration
    from seqtune.kernels.space import SearchSpace
    from seqtune.predictor.times.checkpoint import Checkpoint

    Propose = Callable[[Sequence[SearchSpace], int], list[Configuration]]

COUNTS = (0, 3, 5)
ALL = "all"  # the row of all devices together
TITLES = {"transformer": "transformer alone", "trees": "its trees alone", "both": "both, as shipped"}


def propose_by(checkpoint: Checkpoint) -> dict[str, Propose]:
    """How each part proposes. The trees alone rank every valid configuration."""
    from seqtune.predictor.sequence.beam import Candidate

    assert checkpoint.ranker is not None
    ranker, transformer = checkpoint.ranker, replace(checkpoint, ranker=None)

    def trees(spaces: Sequence[SearchSpace], count: int) -> list[Configuration]:
        every = [Candidate(space[row], 0.0) for space in spaces for row in range(len(space))]
        return [candidate.configuration for candidate in ranker.reorder(spaces, every)[:count]]

    return {"transformer": lambda spaces, count: [one.configuration for one in transformer.propose(spaces, count)],
            "trees": trees,
            "both": lambda spaces, count: [one.configuration for one in checkpoint.propose(spaces, count)]}


def measure_parts(data: Dataset, checkpoint: Checkpoint, progress: Callable[[str], None]) -> list[Row]:
    """A row per device, part and number of measured proposals: the geometric mean share of the best known speed."""
    from seqtune.data.measured_tasks import measured_tasks

    parts = propose_by(checkpoint)
    logs: dict[tuple[str, str, int], list[float]] = {}
    tasks = measured_tasks(data, held_out=True)
    for number, measured in enumerate(tasks, start=1):
        progress(f"parts: problem {number} of {len(tasks)}")
        measured = measured.measured_only()
        for part, propose in parts.items():
            times = [measured.time(pick) for pick in propose(measured.task.spaces, max(COUNTS))]
            for count in COUNTS:
                least = min(times[:max(1, count)])
                least = least if math.isfinite(least) else measured.time(measured.task.default)
                share = math.log(measured.best / least)
                for device in (measured.device.name, ALL):
                    logs.setdefault((device, part, count), []).append(share)
    return [{"device": device, "part": part, "measured": count, "share": math.exp(sum(shares) / len(shares)),
             "problems": len(shares)} for (device, part, count), shares in sorted(logs.items())]


def parts_table(rows: Sequence[Row]) -> str:
    """A line per part: the first proposal by device, then all devices together."""
    shares = {(row["device"], row["part"], row["measured"]): row["share"] for row in rows}
    devices = [device for device in dict.fromkeys(row["device"] for row in rows) if device != ALL]
    return markdown(
        ["first proposal", *devices, ALL, "all, best of 3", "all, best of 5"],
        [[title, *(f"{shares[device, part, 0]:.3f}" for device in (*devices, ALL)),
          *(f"{shares[ALL, part, count]:.3f}" for count in COUNTS[1:])] for part, title in TITLES.items()])
