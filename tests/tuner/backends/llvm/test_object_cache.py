"""Tests of machine code that is kept on disk: it is found again, and compiled again where it is of no use."""

from __future__ import annotations

import ctypes
import hashlib
from pathlib import Path

import llvmlite.binding as binding
import pytest

from seqtune.tuner.backends.image_cache import ImageCache
from seqtune.tuner.backends.llvm import compiler
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


@pytest.mark.parametrize("damage", [b"", b'0123\n{"entries": ["answer"]}\n', None])
def test_a_damaged_object_is_compiled_again(damage: bytes | None, tmp_path: Path) -> None:
    cache = ImageCache("object", tmp_path)
    assert answer(cache, 7) == 7
    entry, = tmp_path.glob("*/*.object")
    whole = entry.read_bytes()
    entry.write_bytes(whole[:-10] if damage is None else damage)
    assert answer(cache, 7) == 7
    assert entry.read_bytes() == whole


@pytest.mark.parametrize(("before", "after"), [(b'["answer"]', b'{"answer": 1}'),  # facts of another kind
                                               (b'["answer"]', b'["answer", "other"]'),  # no such function
                                               (b"\x7fELF", b"\x7fFLE")])
def test_an_entry_that_does_not_link_is_compiled_again(before: bytes, after: bytes, tmp_path: Path) -> None:
    cache = ImageCache("object", tmp_path)
    assert answer(cache, 8) == 8
    entry, = tmp_path.glob("*/*.object")
    whole = entry.read_bytes()
    content = whole.partition(b"\n")[2]
    if before not in content:
        pytest.skip("objects have another format on this system")
    content = content.replace(before, after)
    entry.write_bytes(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
    assert answer(cache, 8) == 8
    assert entry.read_bytes() == whole


def test_the_key_holds_all_that_machine_code_depends_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ImageCache("object", tmp_path)
    for changed, value in (("OPTIONS", {**compiler.OPTIONS, "opt": 1}), ("toolchain", lambda: "llvmlite 1 LLVM 1")):
        with monkeypatch.context() as patch:
            patch.setattr(compiler, changed, value)
            assert answer(cache, 5) == 5
    assert answer(cache, 5) == 5
    architecture, vendor, *system = binding.get_default_triple().split("-")
    triple = "-".join((architecture, "pc" if vendor == "unknown" else "unknown", *system))  # the same machine code
    monkeypatch.setattr(binding, "get_default_triple", lambda: triple)
    assert answer(cache, 5) == 5
    assert len(list(tmp_path.glob("*/*.object"))) == 4


def test_a_text_with_addresses_of_this_process_is_not_kept(tmp_path: Path) -> None:
    cache = ImageCache("object", tmp_path)
    for _ in range(2):
        module, built = Compiler(instruction_sets()[0], cache).build(text(5), kept=False)
        assert built
        assert ctypes.CFUNCTYPE(ctypes.c_int32)(module.address("answer"))() == 5
    assert not list(tmp_path.glob("*/*.object"))
