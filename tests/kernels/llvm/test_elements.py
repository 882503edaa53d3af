"""Elements in LLVM IR: fp32 and bf16 numbers are loaded, rounded and stored as the host's conversions say."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from seqtune.errors import KernelError
from seqtune.kernels.devices.element_types import decode, encode
from seqtune.kernels.llvm.text.elements import Element
from seqtune.kernels.llvm.text.writer import Writer
from seqtune.tuner.backends.llvm.compiler import capabilities, instruction_sets
from tests.support.devices import device_of
from tests.support.steps.runs import compiler

ROUNDING = [Element("fp32"), Element("bf16"), Element("bf16", rounds=True)]
FP32, BF16 = ROUNDING[0], ROUNDING[1]
CASES = [(name, element) for name in instruction_sets() for element in ROUNDING
         if not element.rounds or "bf16_dots" in dict(capabilities(name))]
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 3.4028235e38, -3.4028235e38, 1.0, -1.5, 1e-37],
                   np.float32)
TIES = np.arange(0x3F800000, 0x3F800000 + (12 << 15), 1 << 15, dtype=np.uint32).view(np.float32)  # halves between two
MOST_LANES = 16
pytestmark = pytest.mark.skipif(not CASES, reason="LLVM finds no vector instructions on this CPU")


def numbers(tiny: bool) -> NDArray[np.float32]:
    """Special numbers, ties and random bits; with `tiny`, also those below the smallest normal number."""
    bits = np.random.default_rng(1).integers(0, 2**32, 4000, dtype=np.uint32).view(np.float32)
    below = np.abs(bits) < 1.2e-38
    return np.concatenate([SPECIAL, TIES, -TIES, bits if tiny else bits[~below]]).astype(np.float32)


def entry(instruction_set: str, declarations: str, body: Callable[[Writer], None]) -> Callable[[int, int, int], None]:
    """Compile `f(x, y, n)` and return it."""
    write = Writer()
    body(write)
    text = "\n".join([declarations, write.function("void @f(ptr %x, ptr %y, i64 %n)")])
    module, _ = compiler(instruction_set).build(text)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(module.address("f"))

    def run(x: int, y: int, n: int) -> None:
        assert module
        call(x, y, n)

    return run


def moved(instruction_set: str, source: Element, to: Element, lanes: int, x: NDArray[Any]) -> NDArray[Any]:
    """The elements of x converted; the two elements after the result must not change."""
    def body(write: Writer) -> None:
        with write.loop(0, "%n", lanes) as index:
            value = source.load(write, lanes, source.at(write, "%x", index))
            to.store(write, lanes, value, to.at(write, "%y", index))

    y = np.full(x.size + 2, 7, np.float32 if to.dtype == "fp32" else np.uint16)
    entry(instruction_set, "", body)(x.ctypes.data, y.ctypes.data, x.size)
    assert (y[x.size:] == 7).all()
    return y[:x.size]


def in_vectors(array: NDArray[np.float32]) -> NDArray[np.float32]:
    """The array without the numbers after its last whole vector."""
    return np.ascontiguousarray(array[:array.size - array.size % MOST_LANES])


@pytest.mark.parametrize(("instruction_set", "element"), CASES)
@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
def test_numbers_are_stored_as_the_host_encodes_them(instruction_set: str, element: Element, lanes: int) -> None:
    x = in_vectors(numbers(tiny=not element.rounds))
    y = moved(instruction_set, FP32, element, lanes, x)
    if element.dtype == "fp32":
        assert (y.view(np.uint32) == x.view(np.uint32)).all()
        return
    nan = np.isnan(x)
    assert nan.any()
    assert np.isnan(decode(y[nan], "bf16")).all()
    assert (y[~nan] == encode(x[~nan], "bf16")).all()


@pytest.mark.parametrize("instruction_set", instruction_sets())
@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
def test_every_bf16_number_is_read_exactly(instruction_set: str, lanes: int) -> None:
    stored = np.arange(2**16, dtype=np.uint16)
    y = moved(instruction_set, BF16, FP32, lanes, stored)
    assert (y.view(np.uint32) == stored.astype(np.uint32) << 16).all()


@pytest.mark.parametrize(("instruction_set", "element"), CASES)
def test_single_numbers_are_read_and_written(instruction_set: str, element: Element) -> None:
    def body(write: Writer) -> None:
        with write.loop(0, "%n") as index:
            element.store_one(write, element.load_one(write, element.at(write, "%x", index)),
                              element.at(write, "%y", index))

    x = encode(numbers(tiny=False)[:80], element.dtype)
    y = np.zeros_like(x)
    entry(instruction_set, "", body)(x.ctypes.data, y.ctypes.data, x.size)
    same = (x == y) | (np.isnan(decode(x, element.dtype)) & np.isnan(decode(y, element.dtype)))
    assert same.all()


@pytest.mark.parametrize(("instruction_set", "element"), CASES)
def test_lanes_outside_a_mask_are_neither_read_nor_written(instruction_set: str, element: Element) -> None:
    mask = "<i1 0, i1 1, i1 1, i1 0, i1 0, i1 1, i1 0, i1 0>"

    def body(write: Writer) -> None:
        element.store_masked(write, 8, element.load_masked(write, 8, "%x", mask), "%y", mask)
        element.store(write, 8, element.load_masked(write, 8, "%x", mask), element.at(write, "%y", 8))

    x = encode(np.arange(1, 9).astype(np.float32), element.dtype)
    y = encode(np.full(16, 50, np.float32), element.dtype)
    entry(instruction_set, element.declare(8), body)(x.ctypes.data, y.ctypes.data, 0)
    assert decode(y, element.dtype).tolist() == [50, 2, 3, 50, 50, 6, 50, 50, 0, 2, 3, 0, 0, 6, 0, 0]


def test_an_element_knows_its_size_and_the_device_and_other_types_are_refused() -> None:
    assert (FP32.bytes, BF16.bytes) == (4, 2)
    assert not Element.of("bf16", device_of("llvm")).rounds
    with pytest.raises(KernelError, match="do not compute in fp16"):
        Element("fp16")
