"""ImageCache: compiled kernels on disk, in the user's cache folder.

One file a kernel: a line with a digest of the rest, a line of JSON with facts about the image, then the image. A
damaged file counts as absent. The folder's size is bounded: the least recently used files are removed first. Images
are run as they are, so a folder that belongs to another user, or that others may write into, is not used.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from seqtune.errors import SeqtuneError, SeqtuneWarning
from seqtune.kernels.files import SCRATCH, read_bounded, replacing
from seqtune.kernels.own_folders import cache_folder

LARGEST_IMAGE = 256_000_000  # bytes; our kernels compile to less than 1 MB
MOST_BYTES = 1 << 30  # 10,000 to 50,000 kernels
WRITES_BETWEEN_SWEEPS = 500  # a sweep looks at every file: 0.1 s for 20,000
ABANDONED = 3600  # seconds after which the writer of a scratch file was killed: writing takes milliseconds


class ImageCache:
    """Compiled images of one kind, by a key that holds all that they depend on. Threads may share a cache.

    `kind` names the folder and the files: "cubin" for GPUs, "object" for CPUs. Where the folder is not safe, the cache
    stays empty, with one SeqtuneWarning.
    """

    def __init__(self, kind: str, folder: Path | None = None, most_bytes: int = MOST_BYTES) -> None:
        self.folder = folder or cache_folder() / kind
        self._kind = kind
        self._most_bytes = most_bytes
        self._writes = 0

    def get(self, key: str) -> tuple[bytes, dict[str, Any]] | None:
        """The image under the key with the facts that were kept with it, or None."""
        path = self._path(key)
        if not self._safe():
            return None
        try:
            digest, _, content = read_bounded(path, LARGEST_IMAGE, only_regular=True).partition(b"\n")
            if digest != _digest(content):
                return None
            header, _, image = content.partition(b"\n")
            facts = json.loads(header)
        except (SeqtuneError, ValueError, RecursionError):
            return None
        if not isinstance(facts, dict):
            return None
        with suppress(OSError):
            os.utime(path)  # used now: the sweep removes the longest unused
        return image, facts

    def put(self, key: str, image: bytes, facts: Mapping[str, Any]) -> None:
        """Keep an image and facts, which are JSON. Where the folder cannot be written or is not safe, keep nothing."""
        content = json.dumps(facts).encode() + b"\n" + image
        path = self._path(key)
        if not self.folder.is_absolute():  # the user has no home folder
            return
        with suppress(OSError, SeqtuneError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._safe():
                return
            path.parent.mkdir(mode=0o700, exist_ok=True)
            with replacing(path, durable=False) as scratch:  # the digest finds a torn file
                scratch.write_bytes(_digest(content) + b"\n" + content)
            self._writes += 1
            if self._writes % WRITES_BETWEEN_SWEEPS == 1:
                self.sweep()

    def sweep(self) -> None:
        """Remove scratch files of killed writers, and the files that were not used for longest, until the rest fits."""
        for path in self.folder.glob(f"*/.*{SCRATCH}"):
            with suppress(OSError):  # another process may have removed it
                if time.time() - path.stat().st_mtime > ABANDONED:
                    path.unlink()
        files: list[tuple[float, int, Path]] = []
        for path in self.folder.glob(f"*/*.{self._kind}"):
            with suppress(OSError):
                facts = path.stat()
                files.append((facts.st_mtime, facts.st_size, path))
        size = sum(size for _, size, _ in files)
        for _, bytes_freed, path in sorted(files):
            if size <= self._most_bytes:
                return
            with suppress(OSError):
                path.unlink()
            size -= bytes_freed

    def _safe(self) -> bool:
        """Whether the folder is one, and only this user may write into it, as far as the system says who may."""
        if not self.folder.is_absolute():
            return False
        try:
            facts = self.folder.stat()
        except OSError:
            return False
        if os.name != "posix" or (facts.st_uid == os.geteuid() and not facts.st_mode & 0o022):
            return True
        _warn_once(self.folder, f"chmod go-w {shlex.quote(str(self.folder))} lets it be used"
                   if facts.st_uid == os.geteuid() else "it belongs to another user")
        return False

    def _path(self, key: str) -> Path:
        name = hashlib.sha256(key.encode()).hexdigest()
        return self.folder / name[:2] / f"{name}.{self._kind}"


@lru_cache
def _warn_once(folder: Path, remedy: str) -> None:
    warnings.warn(f"compiled kernels are not kept in {folder}, because others may write into it, and are compiled "
                  f"again in each process; {remedy}", SeqtuneWarning, stacklevel=2)


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
