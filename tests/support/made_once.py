"""Folders that all processes of a run share: what takes seconds to make is made once."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

SECONDS = 600  # after which a process no longer waits for another one, which may have been killed


def made_once(name: str, make: Callable[[Path], object]) -> Path:
    """The folder that `make` fills. The first process that asks makes it, and the others wait until it is whole."""
    shared = Path(os.environ["HOME"]).parent / "shared"  # beside the other folders of the run; see `conftest.py`
    shared.mkdir(exist_ok=True)
    folder, begun, partial = shared / name, shared / f"{name}.begun", shared / f"{name}.partial"
    deadline = time.monotonic() + SECONDS
    while not folder.exists():
        try:
            begun.touch(exist_ok=False)
        except FileExistsError:
            assert time.monotonic() < deadline, f"{folder} is not made"
            time.sleep(0.1)
            continue
        try:
            if not folder.exists():  # another process may have ended meanwhile
                make(partial)
                partial.rename(folder)
        finally:
            begun.unlink()
    return folder
