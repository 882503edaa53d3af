"""Installed libraries: libraries that other packages offer by entry points of the group `seqtune.libraries`.

The value of an entry point is a Library, a LibraryDocument, or a function that returns one of them.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points

from seqtune.errors import MisuseError, one_line

from .library import Library

GROUP = "seqtune.libraries"


def installed_names() -> dict[str, str]:
    """The names of the installed libraries, each with its distribution; no code of theirs is imported."""
    return {point.name: _origin(point) for point in _points()}


def installed_library(name: str) -> Library | None:
    """The installed library of this name, or None if there is none. Raises MisuseError if it cannot be imported."""
    point = next((point for point in _points() if point.name == name), None)
    if point is None:
        return None
    try:
        value = point.load()
        if callable(value) and not isinstance(value, Library):
            value = value()
        library = value if isinstance(value, Library) else _declared(value)
    except Exception as error:  # another package's code may raise anything
        raise MisuseError(f"the library {name!r:.60} of {_origin(point)} cannot be loaded: "
                          f"{one_line(f'{type(error).__name__}: {error}')}") from None
    if library.name != name:
        raise MisuseError(f"{_origin(point)} offers the library {library.name!r:.60} under the name {name!r:.60}")
    return replace(library, origin=_origin(point))


def _declared(value: object) -> Library:
    from .declared_library import declared_library
    from .document import LibraryDocument

    if not isinstance(value, LibraryDocument):
        raise TypeError(f"a {type(value).__name__} is neither a Library nor a LibraryDocument")
    return declared_library(value)


def _points() -> list[EntryPoint]:
    return sorted(entry_points(group=GROUP), key=lambda point: point.name)


def _origin(point: EntryPoint) -> str:
    return "an installed package" if point.dist is None else f"{point.dist.name} {point.dist.version}"
