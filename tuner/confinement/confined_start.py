"""ConfinedStart: which measuring workers are confined, and the words and variables that start one."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from seqtune.errors import SeqtuneWarning
from seqtune.kernels import own_folders

from . import landlock

UNUSED = 14 * 86400  # seconds after which a library's folder is removed; its programs are compiled again
_WORKER = "seqtune.tuner.measuring.worker.confined"
_PASSED = ("PATH", "HOME", "USER", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME")
_PASSED_PREFIXES = ("LC_", "LANG", "XDG_", "OMP_", "OPENBLAS_", "MKL_", "POCL_", "OCL_", "OPENCL_", "SYCL_",
                    "CL_CONFIG_", "PYOPENCL_")


def needs_confinement(hello: Mapping[str, Any]) -> bool:
    """Whether a worker with this first message runs native code of a file without the user's permission."""
    device = hello["device"]
    on_cpu = device["backend"] == "opencl" and device.get("threads", 0) > 0
    return on_cpu and any("document" in library and not library["allowed"] for library in hello["libraries"])


@lru_cache(maxsize=2)  # once in a process
def warn_if_free(version: Callable[[], int] = landlock.version) -> None:
    """Issue a SeqtuneWarning, once in a process, where this system cannot confine a worker."""
    if version() >= landlock.OLDEST:
        return
    warnings.warn("this system cannot confine kernels of a library file (it has no Landlock of Linux 5.19): they can "
                  "do what you can; run only files that you trust", SeqtuneWarning, stacklevel=2)


def command(hello: Mapping[str, Any]) -> list[str]:
    """The words that start the worker."""
    folders = [library["folder"] for library in hello["libraries"] if library["folder"] is not None]
    return [sys.executable, "-P", "-m", _WORKER, str(cache_folder(hello)), str(own_folders.cache_folder()), *folders]


def environment(variables: Mapping[str, str], cache: Path) -> dict[str, str]:
    """The variables that the worker gets: none that may hold a secret, and a compiler's cache of its own."""
    passed = {name: value for name, value in variables.items()
              if name in _PASSED or name.startswith(_PASSED_PREFIXES)}
    return {**passed, "POCL_CACHE_DIR": str(cache), "TMPDIR": str(cache)}


def cache_folder(hello: Mapping[str, Any]) -> Path:
    """The folder for what this worker compiles.

    Libraries without permission may write anything into it. Therefore each has its own, and other workers none of them.
    """
    names = sorted(str(Path(library["folder"]).resolve() if library["folder"] is not None else library["name"])
                   for library in hello["libraries"] if not library["allowed"])
    return _folder(hashlib.sha256("\0".join(names).encode()).hexdigest()[:16])  # 64 bits: no two libraries share one


def sweep(caches: Path) -> None:
    """Remove the folders of libraries that were not measured for long."""
    for folder in caches.iterdir():
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > UNUSED:
                shutil.rmtree(folder, ignore_errors=True)


@lru_cache(maxsize=16)  # libraries of one process
def _folder(digest: str) -> Path:
    cache = own_folders.cache_folder() / "confined" / digest
    with suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        os.utime(cache)
        sweep(cache.parent)
    if not os.access(cache, os.W_OK):
        cache = Path(tempfile.mkdtemp(prefix="seqtune-confined-"))
        atexit.register(shutil.rmtree, cache, ignore_errors=True)
    return cache
