"""Collected and CollectionProgress: what `seqtune.collect` returns and reports."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem


@dataclass(frozen=True, slots=True)
class CollectionProgress:
    """The state of a collection after a stage of one problem."""

    device: Device
    problem: Problem
    stage: str  # name of what was measured of the problem
    summary: str  # the result of that in a few words
    complete: int  # problems of the device whose stages are all done
    problems: int  # problems of the device
    seconds_left: float  # infinite without a budget

    @property
    def text(self) -> str:
        """The state as one line of text."""
        left = "" if math.isinf(self.seconds_left) else f", {max(0.0, self.seconds_left) / 60:.1f} minutes left"
        return (f"{self.device.name} {self.stage} {self.problem.brief()}: {self.summary} ({self.complete} of "
                f"{self.problems} problems complete{left})")


Progress = Callable[[str | CollectionProgress], None]  # receives a line for a step, or a state


@dataclass(frozen=True, slots=True)
class CollectedDevice:
    """The state of one device: what the collection still lacks, and what it could not measure."""

    device: Device
    remaining: Mapping[str, int]  # problems that a stage has still to do, by its name; empty: complete
    left_out: Mapping[Problem, str]  # problems that this call could not measure, with the reason

    @property
    def text(self) -> str:
        """The state as one line of text."""
        lacks = ", ".join(f"{name} of {count} problems" for name, count in self.remaining.items())
        left_out = f"; {len(self.left_out)} problems could not be measured" if self.left_out else ""
        return f"{self.device.name}: {f'{lacks} remain' if lacks else 'complete'}{left_out}"

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return {"device": self.device.name, "remaining": dict(self.remaining),
                "left_out": [{"problem": problem.to_json(), "reason": reason}
                             for problem, reason in self.left_out.items()]}


@dataclass(frozen=True, slots=True)
class Collected:
    """The result of collecting: a folder with a journal, and the data set of all its records."""

    folder: Path
    data: Path | None  # the data set; None if it does not hold all records of the journal, as after a kill
    records: int  # of the journal
    problems: int
    devices: tuple[CollectedDevice, ...]
    interrupted: bool = False  # whether Ctrl-C or SIGTERM stopped the call

    def conclusion(self) -> str:
        """A line for each device, and one about the data set."""
        counts = f"{self.records} records of {self.problems} problems"
        written = (f"{self.folder}: nothing is measured yet" if not self.records
                   else f"{self.data}: {counts}" if self.data is not None
                   else f"{self.folder}: {counts} in the journal; the next call that measures writes the data set")
        return "\n".join((*(device.text for device in self.devices), written))

    def to_json(self) -> dict[str, Any]:
        """A JSON object, with `interrupted` after Ctrl-C."""
        return {"folder": str(self.folder), "data": None if self.data is None else str(self.data),
                "records": self.records, "problems": self.problems,
                "devices": [device.to_json() for device in self.devices],
                **({"interrupted": True} if self.interrupted else {})}
