"""LintReport: the sizes of a library's spaces on sample problems, and findings with their locations in its file."""

from __future__ import annotations

from dataclasses import dataclass

from ..libraries.fault import KeyPath
from ..problem import Problem


@dataclass(frozen=True, slots=True)
class Remark:
    """Something suspicious, or with `error` something that cannot work, at a path in the document."""

    path: KeyPath
    message: str
    error: bool = False


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
