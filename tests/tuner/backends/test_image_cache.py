"""The cache of compiled images: what was kept comes back whole, only from a folder of this user, in bounded space."""

from __future__ import annotations

import os
import re
import shlex
import warnings
from pathlib import Path

import pytest

from seqtune.errors import SeqtuneWarning
from seqtune.tuner.backends.image_cache import ImageCache


def test_what_was_kept_comes_back(tmp_path: Path) -> None:
    image, facts = b"\x7fELF\n{}\n\0", {"entries": ["main"], "spills": {"main": [0, 8]}}
    ImageCache("object", tmp_path / "new" / "object").put("key", image, facts)
    again = ImageCache("object", tmp_path / "new" / "object")
    assert again.get("key") == (image, facts)
    assert again.get("another key") is None


@pytest.mark.parametrize(("before", "after"), [(b"main", b"maim"), (b"ELF", b"elf"), (b"{", b"["), (b"\n", b"")])
def test_a_change_of_facts_or_image_is_found(before: bytes, after: bytes, tmp_path: Path) -> None:
    cache = ImageCache("object", tmp_path)
    cache.put("key", b"\x7fELF", {"entries": ["main"]})
    entry, = tmp_path.glob("*/*.object")
    entry.write_bytes(entry.read_bytes().replace(before, after))
    assert cache.get("key") is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes among its files")
def test_a_pipe_in_the_folder_counts_as_absent(tmp_path: Path) -> None:
    cache = ImageCache("object", tmp_path)
    cache.put("key", b"image", {})
    entry, = tmp_path.glob("*/*.object")
    entry.unlink()
    os.mkfifo(entry)
    assert cache.get("key") is None  # an ordinary reader would wait for a writer
    cache.put("key", b"image", {})
    assert cache.get("key") is None


@pytest.mark.skipif(os.name != "posix", reason="this system has no such permissions")
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_may_write_into_is_neither_read_nor_written(mode: int, tmp_path: Path) -> None:
    cache = ImageCache("object", tmp_path / "object")
    cache.put("key", b"image", {})
    cache.folder.chmod(mode)
    remedy = re.escape(f"chmod go-w {shlex.quote(str(cache.folder))}")
    with pytest.warns(SeqtuneWarning, match=f"others may write into it.*{remedy}"):
        assert cache.get("key") is None
    with warnings.catch_warnings(action="error"):  # it warns once
        assert ImageCache("object", tmp_path / "object").get("key") is None
        cache.put("second", b"image", {})
    assert len(list(cache.folder.glob("*/*.object"))) == 1
    cache.folder.chmod(0o755)  # others may read it
    assert cache.get("key") == (b"image", {})


@pytest.mark.skipif(os.name != "posix", reason="this system has no such owners")
def test_a_folder_of_another_user_is_neither_read_nor_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ImageCache("object", tmp_path / "object")
    cache.put("key", b"image", {})
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.warns(SeqtuneWarning, match="belongs to another user"):
        assert cache.get("key") is None
    cache.put("second", b"image", {})
    assert len(list(cache.folder.glob("*/*.object"))) == 1


def test_the_longest_unused_images_are_removed_first(tmp_path: Path) -> None:
    cache = ImageCache("cubin", tmp_path, most_bytes=3500)
    for number in range(4):
        cache.put(str(number), bytes(1000), {})
    for age, path in enumerate(sorted(tmp_path.glob("*/*.cubin"))):
        os.utime(path, (1000 + age, 1000 + age))
    assert cache.get("1") is not None  # used now
    cache.sweep()
    assert cache.get("1") is not None
    assert sum(cache.get(str(number)) is not None for number in range(4)) == 3
