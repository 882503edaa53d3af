"""Rights: what a process gives up before it runs native code of a library whose author the user need not trust."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from ..processes import SOURCE
from .landlock import restrict
from .system_calls import forbid_calls, forbid_privileges

LARGEST_FILE = 1 << 30  # bytes that it may write into one file
_HOMES = ("/home", "/root", "/Users")
_DEVICES = ("/dev/null", "/dev/zero")  # that compilers and linkers write to


def confine(cache: Path, paths: Iterable[Path]) -> None:
    """Give up rights, as far as the system can take them. Call it before there is a second thread.

    The process may write into the folder `cache` alone. It reads everything except home folders, and in these Python's
    and seqtune's folders and `paths`.
    """
    with suppress(ImportError):  # another system
        import resource

        for limit, most in ((resource.RLIMIT_FSIZE, LARGEST_FILE), (resource.RLIMIT_CORE, 0)):
            resource.setrlimit(limit, (most, most))
    forbid_privileges()
    restrict([*_outside_homes(), *_needed(paths)], [cache, *map(Path, _DEVICES)])
    forbid_calls()


def _homes() -> set[Path]:
    """The user's home, by its name and by the folder that a link leads to; empty for a user without one."""
    names = {os.environ.get("HOME", "")}
    with suppress(ImportError, KeyError):  # another system, or a user number without an entry
        import pwd

        names.add(pwd.getpwuid(os.getuid()).pw_dir)
    paths = [Path(name) for name in names if Path(name).is_absolute()]
    homes = {home for path in paths for home in (path, path.resolve())}
    return {home for home in homes if home != home.parent}  # the root folder is no home to hide


def _outside_homes() -> Iterator[Path]:
    """The entries of the root folder without those in which homes are, also where a link leads into one."""
    usual = [Path(name) for name in _HOMES]
    homes = {*_homes(), *usual, *(path.resolve() for path in usual)}
    for entry in Path("/").iterdir():
        paths = (entry, entry.resolve())
        if not any(home.is_relative_to(path) or path.is_relative_to(home) for home in homes for path in paths):
            yield entry


def _needed(paths: Iterable[Path]) -> Iterator[Path]:
    """The folders of Python, its packages and our own, and `paths`, unless the user's home is in one of them."""
    variables = (os.environ.get(name, "").split(os.pathsep) for name in ("LD_LIBRARY_PATH", "PYTHONPATH"))
    used = [sys.prefix, sys.base_prefix, SOURCE, *sys.path, *(path for listed in variables for path in listed if path),
            os.environ.get("OCL_ICD_VENDORS", SOURCE), *paths]
    homes = _homes()
    for path in used:
        folder = Path(path).resolve()
        if folder != folder.parent and not any(home.is_relative_to(folder) for home in homes):
            yield folder
