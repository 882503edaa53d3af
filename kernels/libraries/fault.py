"""DocumentFault: what is wrong in a library's document, and where: the keys that lead to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

from pydantic import ValidationError

from seqtune.errors import FormatError, MisuseError, one_line

Path: TypeAlias = tuple[str | int, ...]  # keys and indices from the top of the document

KEY = "[key]"  # pydantic's mark: the last key itself is wrong, not its value


class DocumentFault(FormatError):
    """A mistake in a document. `path` leads to the wrong value; if it ends in KEY, to the wrong key."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(f"{dotted(path)}: {message}" if path else message)
        self.path, self.message = path, message


@contextmanager
def found_at(*path: str | int) -> Iterator[None]:
    """Give errors about an input (MisuseError) the path of the part of the document that they are about."""
    try:
        yield
    except DocumentFault as fault:
        raise DocumentFault((*path, *fault.path), fault.message) from None
    except MisuseError as error:
        raise DocumentFault(path, one_line(error)) from None


def dotted(path: Path) -> str:
    """A path as TOML writes it, in at most 200 characters."""
    return ".".join(str(part) if not isinstance(part, str) or part.replace("_", "").replace("-", "").isalnum()
                    else repr(part)[:60] for part in path if part != KEY)[:200]


def first_fault(error: ValidationError) -> DocumentFault:
    """The first mistake that pydantic found, in our words."""
    first = error.errors(include_url=False, include_context=True)[0]
    path, kind = tuple(first["loc"]), first["type"]
    context: Mapping[str, object] = first.get("ctx") or {}
    if kind == "extra_forbidden":
        return DocumentFault((*path, KEY), "no such key is known here")
    if kind == "missing":
        return DocumentFault(path[:-1], f"it lacks {str(path[-1])!r:.60}")
    if kind == "value_error":
        return DocumentFault(path, one_line(str(context.get("error", first["msg"]))))
    text = one_line(str(first["msg"])).replace("Input should be", "it must be")
    value = first["input"]
    shown = f", not {value!r:.60}" if isinstance(value, str | int | float | bool) and len(repr(value)) < 200 else ""
    return DocumentFault(path, text[:1].lower() + text[1:] + shown)
