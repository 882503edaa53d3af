"""Rights: what a process gives up before it runs native code of a library whose author the user need not trust."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import seqtune

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
    for limit, most in ((resource.RLIMIT_FSIZE, LARGEST_FILE), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(limit, (most, most))
    forbid_privileges()
    measured = cache.parent  # rates of this machine, which would be measured again
    restrict([*_outside_homes(), *_needed([*paths, measured])], [cache, *map(Path, _DEVICES)])
    forbid_calls()


def _outside_homes() -> Iterator[Path]:
    """The entries of the root folder without those in which homes are."""
    homes = [*map(Path, _HOMES), Path.home()]
    for entry in Path("/").iterdir():
        if not any(home.is_relative_to(entry) for home in homes):
            yield entry


def _needed(paths: Iterable[Path]) -> Iterator[Path]:
    """The folders of Python, its packages and our own, and `paths`, unless the user's home is in one of them."""
    variables = (os.environ.get(name, "").split(os.pathsep) for name in ("LD_LIBRARY_PATH", "PYTHONPATH"))
    source = Path(seqtune.__file__).resolve().parent.parent
    used = [sys.prefix, sys.base_prefix, source, *sys.path, *(path for listed in variables for path in listed if path),
            os.environ.get("OCL_ICD_VENDORS", source), *paths]
    for path in used:
        folder = Path(path).resolve()
        if not Path.home().resolve().is_relative_to(folder):
            yield folder
