"""Tests of machine code that is kept on disk: it is found again, and compiled again where it is damaged."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from seqtune.tuner.backends.image_cache import ImageCache
from seqtune.tuner.backends.llvm.compiler import Compiler, instruction_sets


def text(number: int) -> str:
    """A module with a function that returns a number."""
    return f"define i32 @answer() {{\n  ret i32 {number}\n}}\n"


def answer(cache: ImageCache, number: int) -> int:
    """The result of the function, built by a new compiler."""
    module, built = Compiler(instruction_sets()[0], cache).build(text(number))
    assert built
    return int(ctypes.CFUNCTYPE(ctypes.c_int32)(module.address("answer"))())


def test_an_object_is_compiled_once_for_all_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ImageCache("object", tmp_path)
    assert answer(cache, 5) == 5
    assert len(list(tmp_path.glob("*/*.object"))) == 1
    monkeypatch.setattr("llvmlite.binding.parse_assembly", None)  # it would fail
    assert answer(cache, 5) == 5
    with pytest.raises(TypeError):
        answer(cache, 6)


@pytest.mark.parametrize("damage", [b"", b'{"sha256": "0", "facts": {}}\n', None])
def test_a_damaged_object_is_compiled_again(damage: bytes | None, tmp_path: Path) -> None:
    cache = ImageCache("object", tmp_path)
    assert answer(cache, 7) == 7
    entry, = tmp_path.glob("*/*.object")
    whole = entry.read_bytes()
    entry.write_bytes(whole[:-10] if damage is None else damage)
    assert answer(cache, 7) == 7
    assert entry.read_bytes() == whole


def test_facts_of_another_kind_count_as_absent(tmp_path: Path) -> None:
    cache = ImageCache("object", tmp_path)
    assert answer(cache, 8) == 8
    entry, = tmp_path.glob("*/*.object")
    header, _, image = entry.read_bytes().partition(b"\n")
    entry.write_bytes(header.replace(b'["answer"]', b'{"answer": 1}') + b"\n" + image)
    assert answer(cache, 8) == 8


def test_the_folder_is_the_users_alone(tmp_path: Path) -> None:
    answer(ImageCache("object", tmp_path / "new"), 9)
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0
