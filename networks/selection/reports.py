"""Reports on a whole network, which are kept with its choices.

NetworkVerification says what the budget of its verification was spent on, and what it gained; GraphVerdict compares it
with what PyTorch makes of it.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from seqtune.errors import FormatError

INDUCTOR, EAGER = "inductor", "eager"  # PyTorch's forms of a graph: Inductor's code, its own operations
COMPARED = (INDUCTOR, EAGER)
LOADED = "other work had much of the machine meanwhile"


@dataclass(frozen=True, slots=True)
class NetworkVerification:
    """Equal layers count once. `ratio` is the time of the predicted network over that of the verified one.

    The ratio is None where every layer kept its predicted configuration, so that both networks are the same, or where
    the note says that no time was left to compare them.
    """

    budget: float  # seconds
    used: float  # seconds
    layers: int
    verified: int  # in this or an earlier process
    without_gain: int  # not measured: their share of the run time is too small, or their prediction too certain
    ratio: float | None = None
    spread: float = 0.0  # interquartile range of the rounds' ratios
    note: str = ""
    loaded: bool = False  # whether other work had much of the machine meanwhile

    @property
    def keeps_predicted(self) -> bool:
        """Whether the predicted network was the faster one and computes."""
        return self.ratio is not None and self.ratio < 1

    @property
    def out_of_time(self) -> int:
        """The number of layers that may gain and for which the budget had no time left."""
        return self.layers - self.verified - self.without_gain

    @classmethod
    def of_json(cls, value: Any) -> NetworkVerification:
        """The inverse of `dataclasses.asdict`. Raises FormatError for anything else."""
        with suppress(TypeError, ValueError, KeyError):
            budget, used, spread = (float(value[name]) for name in ("budget", "used", "spread"))
            ratio = None if value["ratio"] is None else float(value["ratio"])
            counts = [int(value[name]) for name in ("layers", "verified", "without_gain")]
            if all(math.isfinite(number) and number >= 0 for number in (budget, used, spread, ratio or 0.0, *counts)):
                return cls(budget, used, counts[0], counts[1], counts[2], ratio, spread, str(value["note"])[:300],
                           value.get("loaded") is True)
        raise FormatError(f"{str(value)!r:.60} is no report on the verification of a network")

    def __str__(self) -> str:
        left_out = [f"{self.without_gain} have nothing to gain" if self.without_gain else "",
                    f"{self.out_of_time} had no time left" if self.out_of_time > 0 else ""]
        because = f" ({', '.join(filter(None, left_out))})" if any(left_out) else ""
        if self.ratio is None:
            result = "the predicted network computes"
        else:
            kept = "so the predicted one is kept" if self.keeps_predicted else "and is kept"
            result = (f"the verified network has {self.ratio:.3f} times the speed of the predicted one "
                      f"(spread {self.spread:.1%}), {kept}")
        note = _notes(self.note, self.loaded)
        return (f"{self.verified} of {self.layers} layers verified{because} in {self.used:.0f} of {self.budget:.0f} s; "
                f"{result}{note}")


@dataclass(frozen=True, slots=True)
class GraphVerdict:
    """The typical seconds of one graph: of our form, and of the fastest other one."""

    peer: str  # "inductor" or "eager"
    seconds: float
    peer_seconds: float
    peer_wins: bool
    note: str = ""  # the reason why Inductor's form is missing
    loaded: bool = False  # whether other work had much of the machine meanwhile

    @classmethod
    def of_json(cls, value: Any) -> GraphVerdict | None:
        """The verdict that `asdict` wrote, or None for anything else."""
        with suppress(TypeError, ValueError, KeyError):
            peer, note = str(value["peer"]), str(value["note"])[:300]
            if peer in COMPARED:
                return cls(peer, float(value["seconds"]), float(value["peer_seconds"]), value["peer_wins"] is True,
                           note, value.get("loaded") is True)
        return None

    def __str__(self) -> str:
        whose = "Inductor's code" if self.peer == INDUCTOR else "PyTorch's own operations"
        note = _notes(self.note, self.loaded)
        return f"{self.peer_seconds * 1e3:.3f} ms with {whose}, {self.seconds * 1e3:.3f} ms with our programs{note}"


def _notes(note: str, loaded: bool) -> str:
    """The ends of a report's line."""
    return "".join(f"; {text}" for text in (note, LOADED if loaded else "") if text)
