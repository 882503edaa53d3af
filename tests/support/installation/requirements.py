"""Requirements: the packages that installed packages bring, by their metadata."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def installed_packages(folder: Path | None = None) -> dict[str, Distribution]:
    """The installed distributions by name, those of one folder or of this Python."""
    found = distributions() if folder is None else distributions(path=[str(folder)])
    return {canonicalize_name(distribution.metadata["Name"]): distribution for distribution in found}


def reachable(asked: Iterable[Requirement], installed: Mapping[str, Distribution]) -> set[str]:
    """The names of these packages and of all that they bring; of what is not installed, the name alone is known."""
    left, seen, names = list(asked), set[tuple[str, frozenset[str]]](), set[str]()
    while left:
        wanted = left.pop()
        name, extras = canonicalize_name(wanted.name), frozenset(wanted.extras)
        if (name, extras) in seen or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
            continue
        seen.add((name, extras))
        names.add(name)
        for line in (installed[name].requires or ()) if name in installed else ():
            brought = Requirement(line)
            if brought.marker is None or any(brought.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                brought.marker = None
                left.append(brought)
    return names
