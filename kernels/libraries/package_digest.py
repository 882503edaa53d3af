"""Digest of a package's sources: two machines with one digest run the same code."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from seqtune.errors import MisuseError

from ..files import TEXTS, reason


@lru_cache(maxsize=16)
def package_digest(name: str) -> str:
    """The digest of the sources of a package or module, by their paths in it: Python files, and the texts beside them.

    Nothing is imported. Raises MisuseError if there is no such package, or its files cannot be read.
    """
    spec = importlib.util.find_spec(name)
    if spec is None or (spec.origin is None and spec.submodule_search_locations is None):
        raise MisuseError(f"the package {name!r:.60} is not installed")
    digest = hashlib.sha256()
    try:
        for relative, path in _files(spec.submodule_search_locations, spec.origin):
            content = path.read_bytes()
            digest.update(f"{relative} {len(content)}\n".encode())
            digest.update(content)
    except OSError as error:
        raise MisuseError(f"cannot read the sources of {name}: {reason(error)}") from None
    return digest.hexdigest()


def _files(folders: object, origin: str | None) -> Iterator[tuple[str, Path]]:
    """The sources of a package with their paths in it, in a fixed order; links to folders are followed."""
    if not isinstance(folders, list) and not hasattr(folders, "__iter__"):
        assert origin is not None
        yield Path(origin).name, Path(origin)
        return
    for folder in map(str, folders):
        for parent, children, files in os.walk(folder, followlinks=True):
            children[:] = sorted(child for child in children if child != "__pycache__" and not child.startswith("."))
            for file in sorted(files):
                if file.endswith((".py", *TEXTS)):
                    path = Path(parent, file)
                    yield path.relative_to(folder).as_posix(), path
