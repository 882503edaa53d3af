"""The facts of an OpenCL device that only its compiler and its clock know, measured on it and kept in the user's cache.

Macros such as `__AVX512F__` are defined by some compilers only, and a runtime's own words say little about its code.
Therefore rates tell what the compiler uses. The width of a vector register is the widest one at which multiply-adds
still double their rate: where 512 bits take the time of twice 256, as on some CPUs, they count as two. The number of
registers follows from shifts of signed 64-bit lanes. AVX-512 and NEON, which have 32 registers, have them as one
instruction; with AVX2 and SSE, which have 16, a compiler needs three for what takes one with unsigned lanes.

The rate at which more and more sums are kept does not tell the number of registers: large cores hide loads and stores
behind the arithmetic. On a Zen 4, 24 sums in 16 registers were 15 to 20 % slower than 12, which disturbances are, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np

from seqtune.kernels.c_text.text import head
from seqtune.kernels.devices.device import Device
from seqtune.kernels.files import sections

from ..backend import BuildError, LaunchError
from ..measured_rates import RATES, RateCache, Values, best_agree, repeat_until_agreement
from .programs import build, error_line

OPTIONS = ("-cl-fast-relaxed-math", "-cl-mad-enable")
LANES = (4, 8, 16)  # widths of the multiply-adds
SUMS = 12  # of multiply-adds at once: more than their latency, and few enough for 16 registers
FASTER = 1.4  # factor between a rate that doubles with the width and one that stays
SLOWER = 1.3  # factor between shifts of signed lanes that are emulated, 1.6 times the unsigned ones, and others, 1.0
ITEMS = 8  # work-items of `peak` for each compute unit of a CPU: a thread that wakes late leaves some to the others
PASS_FLOPS = 256  # of `peak` in one pass of its loop, by one work-item
BYTES = 128  # of their buffer: the widest variable twice
PASSES = 50_000  # of a loop: 0.1 ms and more, while a launch takes 10 us
SAMPLES = 5  # launches of each kernel in a repetition: a tenth of a second in all; pauses between repetitions add to it
REPETITIONS = 5  # at least; of five, up to two were in a bad tenth of a second
REPETITION_SECONDS = 2.0  # after which no further repetition begins
AGREEMENT = 0.05  # the two best repetitions of every kernel differ by less; launches are as short as 0.1 ms


@dataclass(frozen=True, slots=True)
class Rates:
    """Measured facts. Registers are a CPU's; for other devices they are 0, as nothing is measured."""

    vector_bits: int
    vector_registers: int
    peak_gflops: float
    bandwidth_gbs: float




def _from_json(rates: Any) -> dict[str, Any]:
    return {name: (int if name.startswith("vector") else float)(rates[name]) for name in Rates.__dataclass_fields__}


def measure(cl: Any, handle: Any, clock: Callable[[], float] = time.perf_counter,
            sleep: Callable[[float], None] = time.sleep) -> Rates:
    """Measure the facts on the device, in a second or two. Raises BuildError if it cannot run even these kernels.

    The least time of each kernel over several repetitions counts, because other programs only add time.
    """
    try:
        prober = _Prober(cl, handle, clock)
        measured = repeat_until_agreement(prober.measure, _agree, REPETITIONS, REPETITION_SECONDS, clock, sleep)
    except cl.Error as error:
        raise BuildError(error_line(error)) from None
    return prober.rates({entry: min(seconds[entry] for seconds in measured) for entry in measured[0]})


def measured_facts(cl: Any, handle: Any, key: str, cache: RateCache = RATES,
                   measure: Callable[[Any, Any], Rates] = measure) -> Rates:
    """The facts of pyopencl's device, from the cache or measured now. Raises BuildError."""
    return Rates(**cache.rates("opencl.json", key, _from_json, lambda: asdict(measure(cl, handle))))


def _agree(measured: Sequence[Values]) -> bool:
    """Whether the two least times of every kernel agree."""
    return all(best_agree([seconds[entry] for seconds in measured], AGREEMENT) for entry in measured[0])


class _Prober:
    """The programs and buffers with which a device is measured."""

    def __init__(self, cl: Any, handle: Any, clock: Callable[[], float]) -> None:
        self._clock, context = clock, cl.Context([handle])
        self._queue = cl.CommandQueue(context)
        self._cpu = bool(handle.type & cl.device_type.CPU)
        units, floats = handle.max_compute_units, min(1 << 25, handle.max_mem_alloc_size // 4)  # 128 MiB: no cache
        self._items, self._loops = (ITEMS * units, 100_000) if self._cpu else (2048 * units, 2_000)
        self._steps = floats // (32 * self._items)

        def zeros(size: int) -> Any:
            buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, size)
            cl.enqueue_fill_buffer(self._queue, buffer, np.float32(0), 0, size)
            return buffer

        program, sums = build(cl, context, rates_text(), OPTIONS), zeros(4 * (self._items + 1))
        groups = (self._items,), (1,) if self._cpu else (64,)
        # entry -> kernel, global and local size, arguments
        self._launches: dict[str, tuple[Any, ...]] = {
            "peak": (cl.Kernel(program, "peak"), *groups, sums, np.int32(self._loops)),
            "sweep": (cl.Kernel(program, "sweep"), *groups, zeros(4 * floats), sums, np.int32(self._steps))}
        if self._cpu:
            program, vectors = build(cl, context, registers_text(), OPTIONS), zeros(BYTES)
            self._launches |= {entry: (cl.Kernel(program, entry), (1,), (1,), vectors, np.int32(PASSES))
                               for entry in (*(f"fma{lanes}" for lanes in LANES), "shift_signed", "shift_unsigned")}

    def measure(self) -> Values:
        """The shortest seconds of a launch of each kernel, of SAMPLES launches."""
        return {entry: min(self._seconds(entry) for _ in range(SAMPLES)) for entry in self._launches}

    def _seconds(self, entry: str) -> float:
        kernel, items, local, *arguments = self._launches[entry]
        begin = self._clock()
        kernel(self._queue, items, local, *arguments)
        self._queue.finish()
        return self._clock() - begin

    def rates(self, seconds: Mapping[str, float]) -> Rates:
        """The facts that follow from the seconds of each kernel."""
        bits, registers = registers_of(seconds) if self._cpu else (0, 0)
        return Rates(bits, registers, round(self._items * self._loops * PASS_FLOPS / seconds["peak"] / 1e9, 1),
                     round(self._steps * self._items * 128 / seconds["sweep"] / 1e9, 1))


def registers_of(seconds: Mapping[str, float]) -> tuple[int, int]:
    """The (bits, number) of the registers, from the seconds of each kernel of `registers_text`."""
    lanes = LANES[0]
    for wider in LANES[1:]:
        if 2 * seconds[f"fma{lanes}"] < FASTER * seconds[f"fma{wider}"]:
            break
        lanes = wider
    return 32 * lanes, 32 if seconds["shift_signed"] < SLOWER * seconds["shift_unsigned"] else 16


def rates_text() -> str:
    """The text of the kernels `peak` (multiply-adds in registers; arguments: sums, passes) and `sweep`."""
    return head(16) + sections(__file__, "probe.cl")["rates"]


def registers_text() -> str:
    """The text of the kernels `fma4`, `fma8`, `fma16`, `shift_signed` and `shift_unsigned`.

    They update SUMS registers in each pass of a loop. They dereference vector pointers: PoCL 3.0 takes minutes for
    vload16 and vstore16.
    """
    kernels = [(f"fma{lanes}", f"float{lanes}", 4 * lanes, "{0} += {0} * w;", SUMS) for lanes in LANES]
    kernels += [(name, kind, 32, "{0} = ({0} >> 1) ^ w;", SUMS // 2) for name, kind in (
        ("shift_signed", "long4"), ("shift_unsigned", "ulong4"))]
    text = head(16)
    for entry, kind, size, update, count in kernels:
        names = [f"a{number}" for number in range(count)]
        starts = ", ".join(f"{name} = s + ({kind})({number})" for number, name in enumerate(names))
        text += (f"__kernel WIDE void {entry}(__global {kind} *y, int passes) {{\n"
                 f"  const {kind} s = y[0]; {kind} w = s, {starts};\n"
                 f"  for (int i = 0; i < passes; i++) {{ w += s; {' '.join(map(update.format, names))} }}\n"
                 f"  y[{BYTES // size - 1}] = {' + '.join(names)};\n}}\n")  # what it reads stays 0
    return text


LEAST = 300e-6  # seconds of multiply-adds. A launch of PoCL takes 15 to 80 us; beside 100 us of work, that scatter
#                 looked like a slow CPU in every third run
LAUNCHES = 6  # least number of launches that take as long as the work: PoCL's on this scale, more with many threads
MOST = 3e-3  # seconds, where a launch is that slow
TRIALS = 9  # launches of which the median counts


class OpenCLReferenceWork:
    """The kernel `peak` with which the device's rate was measured, for a short time."""

    def __init__(self, cl: Any, context: Any, queue: Any, device: Device,
                 clock: Callable[[], float] = time.perf_counter) -> None:
        """Build the kernel, and measure what a launch takes. Raises BuildError or LaunchError."""
        self._cl, self._queue, self._clock = cl, queue, clock
        self._items = ITEMS * device.compute_units
        program = build(cl, context, rates_text(), OPTIONS)
        try:
            self._sums = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * (self._items + 1))
            cl.enqueue_fill_buffer(queue, self._sums, np.float32(0), 0, 4 * (self._items + 1))
            self._kernel = cl.Kernel(program, "peak")
        except cl.Error as error:
            raise LaunchError(error_line(error)) from None
        self._passes = 1
        self.seconds()  # compiles with PoCL
        launch = median(self.seconds() for _ in range(TRIALS))
        work = min(MOST, max(LEAST, LAUNCHES * launch))
        self._passes = round(work * 1e9 * device.peak_gflops / (PASS_FLOPS * self._items)) or 1
        self.expected = launch + work

    def seconds(self) -> float:
        """Do the work once, and return its time in seconds. Raises LaunchError."""
        began = self._clock()
        try:
            self._kernel(self._queue, (self._items,), (1,), self._sums, np.int32(self._passes))
            self._queue.finish()
        except self._cl.Error as error:
            raise LaunchError(error_line(error)) from None
        return self._clock() - began
