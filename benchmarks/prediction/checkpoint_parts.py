"""Parts of a checkpoint, each alone: the transformer's beam, the boosted trees on every configuration, and both.

They are evaluated on held-out problems as by `seqtune evaluate`: every part chooses among measured configurations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from benchmarks.common.report import Row, markdown

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset
    from seqtune.predictor.times.checkpoint import Checkpoint

COUNTS = (0, 3, 5)
ALL = "all"  # the device name in the rows over all devices
TITLES = {"transformer": "transformer alone", "trees": "its trees alone", "both": "both, as shipped"}


def measure_parts(data: Dataset, checkpoint: Checkpoint, progress: Callable[[str], None]) -> list[Row]:
    """Make a row for each device, part and number of measured proposals, with the geometric mean share."""
    from seqtune.data.measured_tasks import measured_tasks
    from seqtune.predictor.times.checkpoint_parts import parts_of

    parts = {**parts_of(checkpoint), "both": checkpoint}
    logs: dict[tuple[str, str, int], list[float]] = {}
    tasks = measured_tasks(data, held_out=True)
    for number, measured in enumerate(tasks, start=1):
        progress(f"parts: problem {number} of {len(tasks)}")
        measured = measured.measured_only()
        for part, predictor in parts.items():
            times = [measured.time(candidate.configuration)
                     for candidate in predictor.propose([measured.task], max(COUNTS))[0]]
            for count in COUNTS:
                least = min(times[:max(1, count)])
                least = least if math.isfinite(least) else measured.time(measured.task.default)
                share = math.log(measured.best / least)
                for device in (measured.device.name, ALL):
                    logs.setdefault((device, part, count), []).append(share)
    return [{"device": device, "part": part, "measured": count, "share": math.exp(sum(shares) / len(shares)),
             "problems": len(shares)} for (device, part, count), shares in sorted(logs.items())]


def parts_table(rows: Sequence[Row]) -> str:
    """Make the table, a line for each part: the first proposal by device, then over all devices."""
    shares = {(row["device"], row["part"], row["measured"]): row["share"] for row in rows}
    devices = [device for device in dict.fromkeys(row["device"] for row in rows) if device != ALL]
    return markdown(
        ["first proposal", *devices, ALL, "all, best of 3", "all, best of 5"],
        [[title, *(f"{shares[device, part, 0]:.3f}" for device in (*devices, ALL)),
          *(f"{shares[ALL, part, count]:.3f}" for count in COUNTS[1:])] for part, title in TITLES.items()])
