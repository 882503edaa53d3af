"""Memory between gaps: where buffers lie in it, how it is used again, and what canaries see."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqtune.errors import SeqtuneWarning
from seqtune.kernels.devices.element_types import ELEMENT_TYPES, decode, element_type
from seqtune.tuner.backends import host_memory
from seqtune.tuner.backends.backend import LaunchError
from seqtune.tuner.backends.guarded_buffers import MARGIN, GuardedBuffers
from seqtune.tuner.backends.host_memory import LEAST_MARGIN, LINE, PAGE, STAGGERED, HostMemory, ReservedMemory, margins
from seqtune.tuner.backends.opencl.backend import OpenCLBackend
from seqtune.tuner.backends.opencl.calls import OpenCLCalls

FLOATS = [name for name, element in ELEMENT_TYPES.items() if element.is_float]


@pytest.fixture
def warned_anew() -> Iterator[None]:
    """The warning of a refusal is issued as in a new process."""
    host_memory._warn.cache_clear()
    yield
    host_memory._warn.cache_clear()


@given(st.integers(0, 1 << 40), st.integers(0, 20), st.sampled_from([LINE, 128, 512]))
def test_a_buffer_is_aligned_and_ends_near_the_border_of_a_page(size: int, number: int, alignment: int) -> None:
    before, behind = margins(size, number, alignment)
    assert (before + size + behind) % PAGE == 0
    assert before % alignment == 0
    assert LEAST_MARGIN <= behind < LEAST_MARGIN + STAGGERED * alignment
    assert LEAST_MARGIN <= before < LEAST_MARGIN + PAGE


@pytest.mark.parametrize("size", [1, PAGE, 3 * PAGE - 100, host_memory.HUGE_FROM + 5])
def test_memory_ends_where_a_page_ends_and_keeps_what_it_held(size: int) -> None:
    memory = ReservedMemory(size)
    assert memory.bytes.nbytes == size
    assert memory.address == memory.bytes.ctypes.data
    assert (memory.address + size) % PAGE == 0
    assert not memory.bytes.any()
    memory.bytes[:] = np.arange(size) % 251
    memory.resize(1)
    memory.resize(size)
    assert (memory.bytes == np.arange(size) % 251).all()


def test_arrays_keep_the_memory_that_they_show() -> None:
    shown = ReservedMemory(PAGE).bytes[10:20]
    others = [ReservedMemory(PAGE) for _ in range(20)]  # would be mapped where the first one was
    for other in others:
        other.bytes.fill(1)
    assert not shown.any()


def test_freed_memory_is_handed_out_again_where_it_fits() -> None:
    host = HostMemory()
    first, other = host.allocate(10 * PAGE), host.allocate(30 * PAGE)
    for memory in (first, other):
        host.free(memory)
    assert host.allocate(11 * PAGE) is not first
    assert host.allocate(8 * PAGE) is first
    assert first.bytes.nbytes == 8 * PAGE
    host.free(first)
    assert host.allocate(10 * PAGE) is first


@pytest.mark.skipif(sys.platform == "win32", reason="nothing is reserved there")
@pytest.mark.usefixtures("warned_anew")
def test_a_system_that_refuses_addresses_gives_smaller_gaps_and_one_warning() -> None:
    with pytest.warns(SeqtuneWarning, match="on both sides of each buffer") as noted:
        memory = [ReservedMemory(PAGE, (1 << 62, 1 << 20)) for _ in range(3)]
    assert len(noted) == 1
    for piece in memory:
        piece.bytes.fill(1)
    with pytest.raises(LaunchError, match="out of memory"):
        HostMemory(gaps=(1 << 62,)).allocate(PAGE)


def guarded(dtype: str) -> GuardedBuffers:
    """Ten elements x that a kernel reads, and ten elements y that it writes."""
    element = element_type(dtype)
    buffers = GuardedBuffers(HostMemory(), dict.fromkeys("xy", 10 * element.size), ["y"],
                             types=dict.fromkeys("xy", dtype))
    buffers.write("x", np.ones(10, element.stored))
    buffers.poison()
    assert buffers.overrun() is None
    return buffers


def around(buffers: GuardedBuffers, name: str) -> np.ndarray:
    """The stored elements of a buffer's memory from the one before the buffer to the one behind it."""
    buffer = buffers._buffers[name]
    each = buffer.element.size
    whole: np.ndarray = buffer.memory.bytes[buffer.before - each:buffer.before + buffer.size + each]
    return whole.view(buffer.element.stored)


@pytest.mark.parametrize("element", [0, -1])
@pytest.mark.parametrize("dtype", FLOATS)
def test_what_lies_beside_a_buffer_is_not_a_number(element: int, dtype: str) -> None:
    buffers = guarded(dtype)
    with np.errstate(invalid="ignore"):  # reading a signalling NaN is an invalid operation
        for name in "xy":
            assert np.isnan(decode(around(buffers, name), dtype)[element])


@pytest.mark.parametrize("element", [0, -1])
@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_a_canary_that_a_kernel_copies_or_adds_to_is_seen(element: int, dtype: str) -> None:
    """An addition must change what is there: a quiet NaN keeps its bits, and so does a large number of 64 bits."""
    buffers = guarded(dtype)
    x, y = around(buffers, "x"), around(buffers, "y")
    y[element] = x[element]  # as a copy that goes one element too far
    assert buffers.overrun() == "y"
    buffers.poison()
    beside = y[element:][:1]
    with np.errstate(invalid="ignore"):
        if dtype == "bf16":  # added as fp32, of which the upper half is stored
            beside[:] = (decode(beside, dtype) + np.float32(1)).view(np.uint32) >> 16
        else:
            beside += 1
    assert buffers.overrun() == "y"


class CopyingRuntime:
    """pyopencl with a runtime that copies the memory of a buffer and does not use it in place."""

    def __init__(self, cl: Any) -> None:
        self._cl = cl
        self.mem_flags = SimpleNamespace(READ_WRITE=cl.mem_flags.READ_WRITE, USE_HOST_PTR=cl.mem_flags.COPY_HOST_PTR)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cl, name)


def calls(backend: OpenCLBackend, cl: Any = None) -> OpenCLCalls:
    if not backend.device.threads:
        pytest.skip(f"{backend.device.name} is no CPU")
    return OpenCLCalls(cl or backend.cl, backend.context, backend.queue, backend.limits, backend.program, on_cpu=True)


@pytest.mark.device
def test_a_runtime_on_a_cpu_uses_our_memory_in_place(backend: OpenCLBackend) -> None:
    driver = calls(backend)
    assert driver.margins(100, 1) == margins(100, 1, max(LINE, backend.handle.mem_base_addr_align // 8))
    buffer = driver.allocate(PAGE)
    driver.fill(buffer, 0, 7, PAGE)
    driver.finish()
    (memory,) = driver._memory.values()
    assert (memory.bytes == 7).all()
    driver.free(buffer)
    assert not driver._memory


@pytest.mark.device
def test_a_runtime_that_copies_memory_is_named_and_keeps_wide_margins(
        backend: OpenCLBackend) -> None:
    driver = calls(backend, CopyingRuntime(backend.cl))
    with pytest.warns(SeqtuneWarning, match="this OpenCL runtime copies the memory of buffers"):
        assert driver.margins(100, 1) == (MARGIN, MARGIN)
    driver.free(driver.allocate(100))
