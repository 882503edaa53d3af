"""Verdicts: other people's cases, counted by whether they are right, refused (each with a reason) or wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from seqtune.errors import SeqtuneError, one_line

COUNTS = "peers"  # name of the property of a report that `conftest.py` prints
SHOWN = 20  # wrong cases of a message, and reasons of refusals that are printed


@dataclass(slots=True)
class Verdicts:
    """The cases of one test by their names."""

    right: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)  # case -> reason
    wrong: dict[str, str] = field(default_factory=dict)  # case -> what is wrong

    def judge(self, case: str, check: Callable[[], str]) -> None:
        """Judge a case: `check` returns its fault, empty if it is right, and raises SeqtuneError to refuse it."""
        try:
            fault = check()
        except SeqtuneError as error:
            self.refused[case] = one_line(error)
        except Exception as error:
            self.wrong[case] = f"{type(error).__name__}: {one_line(error)}"
        else:
            if fault:
                self.wrong[case] = fault
            else:
                self.right.append(case)

    def check(self, least: int, request: pytest.FixtureRequest) -> None:
        """Fail where a case is wrong or fewer than `least` are right; report the counts and the reasons."""
        reasons = Counter(self.refused.values()).most_common(SHOWN)
        request.node.user_properties.append((COUNTS, "\n".join((
            f"{len(self.right)} right (at least {least}), {len(self.refused)} refused, {len(self.wrong)} wrong",
            *(f"    refused {count}: {reason}" for reason, count in reasons)))))
        assert not self.wrong, dict(list(self.wrong.items())[:SHOWN])
        assert len(self.right) >= least, reasons
