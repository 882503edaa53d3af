"""DocumentFault: a mistake in a library's document, with the keys that lead to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

from pydantic import ValidationError

from seqtune.errors import FormatError, MisuseError, one_line

from .document_part import UNKNOWN_KEY

KeyPath: TypeAlias = tuple[str | int, ...]  # keys and indices from the top of the document

KEY = "[key]"  # pydantic's mark: the last key itself is wrong, not its value

_WANTED = {  # what pydantic expects, in TOML's words
    "model_type": "a table", "model_attributes_type": "a table", "dict_type": "a table", "list_type": "an array",
    "string_type": "a text", "int_type": "a whole number", "int_from_float": "a whole number", "float_type": "a number",
    "bool_type": "true or false"}


class DocumentFault(FormatError):
    """A mistake in a document. `path` leads to the wrong value; if it ends in KEY, to the wrong key."""

    def __init__(self, path: KeyPath, message: str) -> None:
        super().__init__(f"{dotted(path)}: {message}" if path else message)
        self.path, self.message = path, message


@contextmanager
def at_path(*path: str | int) -> Iterator[None]:
    """Turn errors about an input (MisuseError) into DocumentFaults at this path of the document."""
    try:
        yield
    except DocumentFault as fault:
        raise DocumentFault((*path, *fault.path), fault.message) from None
    except MisuseError as error:
        raise DocumentFault(path, one_line(error)) from None


def dotted(path: KeyPath) -> str:
    """A path as TOML writes it, in at most 200 characters."""
    return ".".join(str(part) if not isinstance(part, str) or part.replace("_", "").replace("-", "").isalnum()
                    else repr(part)[:60] for part in path if part != KEY)[:200]


def first_fault(error: ValidationError) -> DocumentFault:
    """The first mistake that pydantic found, in our words. A misspelt key comes before the key that is then missing."""
    errors = error.errors(include_url=False)
    first = min(errors, key=lambda entry: entry["type"] != UNKNOWN_KEY)
    path, kind, value = tuple(first["loc"]), first["type"], first["input"]
    context: Mapping[str, object] = first.get("ctx") or {}
    if kind == UNKNOWN_KEY:
        return DocumentFault((*path, str(context["key"]), KEY), one_line(str(context["message"])))
    if kind == "missing":
        return DocumentFault(path[:-1], f"it lacks {str(path[-1])!r:.60}")
    if kind == "value_error":
        return DocumentFault(path, one_line(str(context.get("error", first["msg"]))))
    if kind in ("too_short", "too_long"):
        return DocumentFault(path, f"it needs at least {context['min_length']} entries" if kind == "too_short" else
                             f"it has more than {context['max_length']} entries")
    shown = f", not {value!r:.60}" if isinstance(value, str | int | float | bool) else ""
    wanted = _WANTED.get(kind) or one_line(str(first["msg"])).replace("Input should be ", "")
    return DocumentFault(path, f"it must be {wanted}{shown}" if kind in _WANTED or "Input should" in str(first["msg"])
                         else wanted[:1].lower() + wanted[1:])
