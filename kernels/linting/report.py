"""LintReport: the sizes of a library's spaces on sample problems, and findings with their locations in its file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..libraries.fault import KeyPath
from ..problem import Problem

ITEM = "{item}"  # stands in a message for what the remark is about
MOST_ALIKE = 5  # remarks of one kind that have lines of their own, and items that one line for more of them names


@dataclass(frozen=True, slots=True)
class Remark:
    """Something suspicious, or with `error` something that cannot work, at a path in the document.

    Remarks that differ in their item alone are of one kind.
    """

    path: KeyPath
    message: str  # ITEM stands for the item
    error: bool = False
    item: str = ""

    @property
    def text(self) -> str:
        """The message with its item."""
        return self.message.replace(ITEM, self.item)


def folded(remarks: Iterable[Remark]) -> list[Remark]:
    """Different remarks in their order; more than MOST_ALIKE of one kind become one, at the place of the first."""
    kinds: dict[tuple[str, bool], list[Remark]] = {}
    for remark in dict.fromkeys(remarks):
        kinds.setdefault((remark.message, remark.error), []).append(remark)
    return [remark for alike in kinds.values() for remark in (alike if len(alike) <= MOST_ALIKE else [_one(alike)])]


def _one(alike: list[Remark]) -> Remark:
    """One remark for all of one kind: it names the first items, or counts the places if there are no items."""
    first, items = alike[0], list(dict.fromkeys(remark.item for remark in alike))
    if len(items) == 1:
        return Remark(first.path, f"{first.message} (and in {len(alike) - 1:,} more places)", first.error, first.item)
    named = ", ".join(items[:MOST_ALIKE])
    more = f" and {len(items) - MOST_ALIKE:,} more" if len(items) > MOST_ALIKE else ""
    return Remark(first.path, first.message, first.error, f"{named}{more}")


@dataclass(frozen=True, slots=True)
class SpaceSize:
    """The number of valid configurations of a kernel for one problem; None if they were too many to count."""

    kernel: str
    problem: Problem
    size: int | None

    def to_json(self) -> dict[str, object]:
        """A flat JSON object."""
        return {"kernel": self.kernel, "problem": self.problem.key, "configurations": self.size}


@dataclass(frozen=True, slots=True)
class LintReport:
    """The result of linting a library: `findings` and `notes` are (location, message). Notes are not suspicious."""

    library: str
    sizes: tuple[SpaceSize, ...]
    findings: tuple[tuple[str, str], ...]
    notes: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, object]:
        """A JSON object."""
        return {"library": self.library, "spaces": [size.to_json() for size in self.sizes],
                **{name: [{"place": location, "message": message} for location, message in remarks]
                   for name, remarks in (("findings", self.findings), ("notes", self.notes))}}
