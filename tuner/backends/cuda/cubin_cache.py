"""CubinCache: compiled kernels on disk, in the user's cache folder.

One file a kernel: a line of JSON (a digest of the image, the spills), then the image. Files are written whole or not at
all; a damaged file counts as absent. The folder's size is bounded: the files that were not used for longest go first.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

from platformdirs import user_cache_dir

from seqtune.errors import SeqtuneError
from seqtune.kernels.files import read_bounded, replacing

from .cubin import LARGEST_IMAGE
from .resources import Spills

MOST_BYTES = 1 << 30  # 10,000 to 50,000 kernels
WRITES_BETWEEN_SWEEPS = 500  # a sweep looks at every file: 0.1 s for 20,000


class CubinCache:
    """Compiled images with their spills, by a key that holds all that they depend on. Threads may share a cache."""

    def __init__(self, folder: Path | None = None, most_bytes: int = MOST_BYTES) -> None:
        self.folder = folder or Path(user_cache_dir("seqtune")) / "cubin"
        self._most_bytes = most_bytes
        self._writes = 0

    def get(self, key: str) -> tuple[bytes, Spills] | None:
        """The image under the key and its spills, or None."""
        path = self._path(key)
        try:
            header, _, image = read_bounded(path, LARGEST_IMAGE).partition(b"\n")
            described = json.loads(header)
            spills = {str(entry): (int(stores), int(loads)) for entry, (stores, loads) in described["spills"].items()}
            if described["sha256"] != hashlib.sha256(image).hexdigest():
                return None
        except (SeqtuneError, LookupError, ValueError, TypeError, AttributeError, RecursionError):
            return None
        with suppress(OSError):
            os.utime(path)  # used now: the sweep removes the longest unused
        return image, spills

    def put(self, key: str, image: bytes, spills: Spills) -> None:
        """Keep an image. Where the folder cannot be written, nothing is kept."""
        header = json.dumps({"sha256": hashlib.sha256(image).hexdigest(), "spills": spills}).encode()
        path = self._path(key)
        with suppress(OSError, SeqtuneError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as scratch:
                scratch.write_bytes(header + b"\n" + image)
            self._writes += 1
            if self._writes % WRITES_BETWEEN_SWEEPS == 1:
                self.sweep()

    def sweep(self) -> None:
        """Remove the files that were not used for longest, until the rest fits."""
        files: list[tuple[float, int, Path]] = []
        for path in self.folder.glob("*/*.cubin"):
            with suppress(OSError):  # another process may have removed it
                facts = path.stat()
                files.append((facts.st_mtime, facts.st_size, path))
        size = sum(size for _, size, _ in files)
        for _, bytes_freed, path in sorted(files):
            if size <= self._most_bytes:
                return
            with suppress(OSError):
                path.unlink()
            size -= bytes_freed

    def _path(self, key: str) -> Path:
        name = hashlib.sha256(key.encode()).hexdigest()
        return self.folder / name[:2] / f"{name}.cubin"
