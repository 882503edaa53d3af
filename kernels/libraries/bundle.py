"""Bundle: a library in use as JSON together with its files, for machines that do not have them.

A library that an installed package brings has no files of its own: the other machine must have the same package.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from seqtune.errors import FormatError, MisuseError

from ..files import TEXTS, reason
from .files import read_regular
from .library import Library
from .messages import message_of, use_messages
from .table import ALWAYS, libraries_in_use

MOST_FILES = 1000
MOST_BYTES = 16_000_000  # all files of a library, which travel in one message

Bundle = dict[str, Any]  # library: its message; files: [name, executable, base64] each; packages: digests; digest


def bundles_in_use() -> list[Bundle]:
    """The bundles of the libraries in use, without those that every process uses. Raises MisuseError."""
    return [bundle_of(library) for library in libraries_in_use() if library.name not in ALWAYS]


def bundle_of(library: Library) -> Bundle:
    """The bundle of a library. Raises MisuseError if it cannot leave this machine."""
    bundle: Bundle = {"library": message_of(library), "files": list(_files(library)),
                      "packages": {name: package_digest(name) for name in _packages(library)}}
    return {**bundle, "digest": _digest(bundle)}


def use_bundles(bundles: list[Bundle], folder: Path) -> None:
    """Write the files of each library into a new folder in `folder`, and use the libraries.

    Raises FormatError for a damaged bundle, and MisuseError if this machine has another version of a package.
    """
    for bundle in bundles:
        message = bundle["library"]
        if bundle.get("digest") != _digest(bundle):
            raise FormatError(f"the library {message.get('name')!r:.60} was damaged on its way: its digest differs")
        for name, digest in bundle["packages"].items():
            if package_digest(name) != digest:
                raise MisuseError(f"the package {name} of the library {message['name']} differs from the one of the "
                                  "machine that tunes; install the same version on both")
        name_digest = hashlib.sha256(message["name"].encode()).hexdigest()
        library_folder = None if message["folder"] is None else folder / name_digest[:16]
        for name, executable, content in bundle["files"]:
            assert library_folder is not None
            _write(library_folder, name, executable, content)
        use_messages([{**message, "folder": None if library_folder is None else str(library_folder)}])


def _files(library: Library) -> Iterator[list[object]]:
    """The files of a library's folder, without hidden ones and journals. Raises MisuseError if they are too many."""
    if library.document is None or library.folder is None:
        return
    root, total, count = library.folder.resolve(), 0, 0
    for parent, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        for name in sorted(names):
            path = Path(parent, name)
            if name.startswith(".") or ".sqlite" in name or not path.is_file() or \
                    not path.resolve().is_relative_to(root):
                continue
            content = read_regular(path, MOST_BYTES)
            total, count = total + len(content), count + 1
            if total > MOST_BYTES or count > MOST_FILES:
                raise MisuseError(f"the folder {root} of the library {library.name} travels with it and has more than "
                                  f"{MOST_FILES} files or {MOST_BYTES // 1_000_000} MB; move the library into a folder "
                                  "of its own")
            yield [path.relative_to(root).as_posix(), os.access(path, os.X_OK), base64.b64encode(content).decode()]


def _packages(library: Library) -> list[str]:
    """The packages, other than seqtune, whose code a library without files names."""
    if library.document is not None and library.own_modules:
        return []
    references = [entry for entry in (*library.table.values(), *library.operations.values()) if isinstance(entry, str)]
    return sorted({reference.partition(":")[0].partition(".")[0] for reference in references} - {"seqtune"})


def _digest(bundle: Bundle) -> str:
    parts = {name: bundle[name] for name in ("library", "files", "packages")}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _write(folder: Path, name: str, executable: bool, content: str) -> None:
    parts = PurePosixPath(name).parts
    if not parts or PurePosixPath(name).is_absolute() or ".." in parts or "\0" in name:
        raise FormatError(f"{name!r:.80} leads out of the library's folder")
    path = folder.joinpath(*parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(base64.b64decode(content, validate=True))
    path.chmod(0o700 if executable else 0o600)


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
        for relative, path in _sources(spec.submodule_search_locations, spec.origin):
            content = path.read_bytes()
            digest.update(f"{relative} {len(content)}\n".encode())
            digest.update(content)
    except OSError as error:
        raise MisuseError(f"cannot read the sources of {name}: {reason(error)}") from None
    return digest.hexdigest()


def _sources(folders: object, origin: str | None) -> Iterator[tuple[str, Path]]:
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
