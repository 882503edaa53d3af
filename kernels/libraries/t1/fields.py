"""T1 fields: typed access to the JSON of a T1 file; a mistake is reported with the keys that lead to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..fault import DocumentFault

LONGEST_LIST = 1000


class Fields:
    """An object of a T1 file, and the keys that lead to it."""

    def __init__(self, content: Any, *path: str | int) -> None:
        if not isinstance(content, Mapping):
            raise DocumentFault(path, "it is no object")
        self._content, self.path = content, path

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self._content.get(name) is not None

    def fault(self, name: str, message: str) -> DocumentFault:
        """A mistake in a field."""
        return DocumentFault((*self.path, name), message)

    def part(self, name: str) -> Fields:
        """A field that is an object; empty if it is missing."""
        return Fields(self._content.get(name) or {}, *self.path, name)

    def parts(self, name: str) -> Iterator[Fields]:
        """The objects of a list."""
        for index, item in enumerate(self.items(name)):
            yield Fields(item, *self.path, name, index)

    def items(self, name: str) -> list[Any]:
        """The elements of a list; none if it is missing."""
        items = self._content.get(name) or []
        if not isinstance(items, list) or len(items) > LONGEST_LIST:
            raise self.fault(name, f"it must be a list of at most {LONGEST_LIST} elements")
        return items

    def text(self, name: str, default: str | None = None) -> str:
        """A text, or a number as text; required without a default."""
        value = self._content.get(name)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise DocumentFault(self.path, f"it lacks {name!r}") if value is None else self.fault(name, "it is no text")
        return str(value)

    def number(self, name: str) -> int | float:
        """A number."""
        value = self._content.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fault(name, f"{value!r:.40} is no number")
        return value

    def raw(self, name: str) -> Any:
        """The field as it is; None if it is missing."""
        return self._content.get(name)

    def names(self) -> Iterator[str]:
        """The names of all fields."""
        return iter(self._content)
