"""Shortage: how many problems a training needs, for those who measure them."""

from __future__ import annotations

FEWEST = 5  # problems: one for each fold of the cross-validation
USEFUL = 30  # problems with which predictors were better than the nearest problem's answer, see docs/results/index.md
NEEDED = f"at least {FEWEST} are needed, {USEFUL} give a useful predictor"
NO_PROBLEM = "the data set has no training problem that a kernel here solves as it is today; nothing to learn from"


def shortage(problems: int) -> str | None:
    """A line that says that no model can be trained from so few problems; None where there are enough."""
    return f"{problems} problem{'s' * (problems > 1)} to learn from; {NEEDED}" if problems < FEWEST else None


def shortage_note(problems: int) -> str | None:
    """The line of `shortage` for those who measure or export, with what the records are good for; or None."""
    lacking = shortage(problems)
    return None if lacking is None else f"{lacking} (seqtune train); seqtune retrain takes any number"
