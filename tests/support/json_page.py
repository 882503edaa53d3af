"""The page of answers as JSON: fields that an answer has and the page does not name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "reference" / "json.md"
Fields = Mapping[str, str]  # path of a field, such as `results[].best` -> its meaning


@cache
def sections() -> Mapping[str, Fields]:
    """Each section's fields by the anchor of its title."""
    found = {}
    for part in PAGE.read_text().split("\n## ")[1:]:
        title, _, text = part.partition("\n")
        rows = re.findall(r"^\| (`.+?`) \| (.+) \|$", text, re.M)
        found[title.lower().replace(" ", "-")] = {
            name: meaning for names, meaning in rows for name in re.findall(r"`([^`]+)`", names)}
    return found


def undocumented(section: str, value: object, path: str = "") -> Iterator[str]:
    """The paths of an answer that the section does not name."""
    fields = sections()[section]
    if isinstance(value, list):
        for element in value:
            yield from undocumented(section, element, path + "[]")
        return
    if not isinstance(value, Mapping):
        return
    other = re.search(r"\]\(#([\w-]+)\)", fields.get(path, ""))
    if path and other is not None:
        yield from (f"{path}.{name}" for name in undocumented(other[1], value))
        return
    for name, inner in value.items():
        inside = f"{path}.{name}" if path else name
        if inside in fields or any(field.startswith((inside + ".", inside + "[")) for field in fields):
            yield from undocumented(section, inner, inside)
        elif f"{path}.*".lstrip(".") not in fields:
            yield inside
