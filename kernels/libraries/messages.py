"""Messages: the libraries in use as JSON, for other processes to use the same ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from seqtune.errors import MisuseError

from .foreign_code import use_with_modules
from .library import Library
from .table import ALWAYS, libraries_in_use


def message_of(library: Library) -> dict[str, Any]:
    """A library as JSON, for a measuring worker or another process. Raises MisuseError if it cannot leave this one."""
    shared: dict[str, Any] = {"name": library.name, "allowed": library.allowed, "origin": library.origin,
                              "folder": None if library.folder is None else str(library.folder)}
    if library.document is not None:
        document = library.document.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return {**shared, "document": document, "own_modules": library.own_modules}
    references = {**library.table, **library.operations}
    unnamed = next((name for name, entry in references.items() if not isinstance(entry, str)), None)
    if unnamed is not None:
        raise MisuseError(f"library {library.name!r}: name {unnamed} as 'module:attribute', so that other processes "
                          "can import it")
    return {**shared, "kernels": dict(library.table), "operations": dict(library.operations),
            "backends": list(library.backends), "runs": library.runs, "alone": library.alone,
            "checkpoint": library.checkpoint}


def of_message(message: dict[str, Any]) -> Library:
    """The inverse of `message_of`."""
    folder = None if message["folder"] is None else Path(message["folder"])
    if "document" in message:
        from .declared_library import declared_library, parse_document

        return declared_library(parse_document(message["document"]), folder, origin=message["origin"],
                                own_modules=message["own_modules"], allowed=message["allowed"])
    return Library(message["name"], message["kernels"], message["operations"], backends=tuple(message["backends"]),
                   runs=message["runs"], alone=message["alone"], checkpoint=message["checkpoint"], folder=folder,
                   allowed=message["allowed"], origin=message["origin"])


def messages_in_use() -> list[dict[str, Any]]:
    """The messages of the libraries in use, without those that every process uses. Raises MisuseError."""
    return [message_of(library) for library in libraries_in_use() if library.name not in ALWAYS]


def use_messages(messages: list[dict[str, Any]]) -> None:
    """Use the libraries of another process."""
    for message in messages:
        use_with_modules(of_message(message))
