"""ImageCache: compiled kernels on disk, in the user's cache folder.

One file a kernel: a line of JSON (a digest of the image, and facts about it), then the image. Files are written whole
or not at all; a damaged file counts as absent. The folder's size is bounded: the files that were not used for longest
go first. Images are run as they are, so the folder belongs to the user alone, like the caches of other compilers.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from platformdirs import user_cache_dir

from seqtune.errors import SeqtuneError
from seqtune.kernels.files import read_bounded, replacing

LARGEST_IMAGE = 256_000_000  # bytes; our kernels compile to less than 1 MB
MOST_BYTES = 1 << 30  # 10,000 to 50,000 kernels
WRITES_BETWEEN_SWEEPS = 500  # a sweep looks at every file: 0.1 s for 20,000


class ImageCache:
    """Compiled images of one kind, by a key that holds all that they depend on. Threads may share a cache.

    `kind` names the folder and the files: "cubin" for GPUs, "object" for CPUs.
    """

    def __init__(self, kind: str, folder: Path | None = None, most_bytes: int = MOST_BYTES) -> None:
        self.folder = folder or Path(user_cache_dir("seqtune")) / kind
        self._kind = kind
        self._most_bytes = most_bytes
        self._writes = 0

    def get(self, key: str) -> tuple[bytes, dict[str, Any]] | None:
        """The image under the key with the facts that were kept with it, or None."""
        path = self._path(key)
        try:
            header, _, image = read_bounded(path, LARGEST_IMAGE).partition(b"\n")
            described = json.loads(header)
            facts = described["facts"]
            if described["sha256"] != hashlib.sha256(image).hexdigest() or not isinstance(facts, dict):
                return None
        except (SeqtuneError, LookupError, ValueError, TypeError, RecursionError):
            return None
        with suppress(OSError):
            os.utime(path)  # used now: the sweep removes the longest unused
        return image, facts

    def put(self, key: str, image: bytes, facts: Mapping[str, Any]) -> None:
        """Keep an image and facts, which are JSON. Where the folder cannot be written, nothing is kept."""
        header = json.dumps({"sha256": hashlib.sha256(image).hexdigest(), "facts": facts}).encode()
        path = self._path(key)
        with suppress(OSError, SeqtuneError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            with replacing(path) as scratch:
                scratch.write_bytes(header + b"\n" + image)
            self._writes += 1
            if self._writes % WRITES_BETWEEN_SWEEPS == 1:
                self.sweep()

    def sweep(self) -> None:
        """Remove the files that were not used for longest, until the rest fits."""
        files: list[tuple[float, int, Path]] = []
        for path in self.folder.glob(f"*/*.{self._kind}"):
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
        return self.folder / name[:2] / f"{name}.{self._kind}"
