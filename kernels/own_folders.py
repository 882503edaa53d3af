"""Own folders: where the user's data (journal, checkpoints) and caches lie.

A user without a home, such as a container's arbitrary number, has no such folder. NOWHERE stands for it: nothing is
found there and nothing can be written, as in a home without rights, so callers need no case of their own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from platformdirs import user_cache_dir, user_data_dir

NOWHERE = Path(os.devnull) / "seqtune"
NO_HOME = "no home folder of this user can be used; set HOME, or XDG_DATA_HOME and XDG_CACHE_HOME, to folders of yours"


def data_folder() -> Path:
    """The folder of the user's journal and checkpoints, which may not exist yet; NOWHERE if there can be none."""
    return _folder(user_data_dir)


def cache_folder() -> Path:
    """The folder of what can be computed again, which may not exist yet; NOWHERE if there can be none."""
    return _folder(user_cache_dir)


def is_nowhere(path: Path) -> bool:
    """Whether a path lies in the folder that a user without a home has."""
    return path.is_relative_to(NOWHERE)


def _folder(folder_of: Callable[[str], str]) -> Path:
    try:
        folder = Path(folder_of("seqtune"))
        folder.exists()  # raises PermissionError where HOME is another user's
    except (RuntimeError, OSError):  # platformdirs finds no home that is an absolute path
        return NOWHERE
    return folder if folder.is_absolute() else NOWHERE
