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
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from seqtune.kernels.opencl.source.text import head

from ..backend import BuildError
from ..measured_rates import cached_rates
from .programs import build, error_line

OPTIONS = ("-cl-fast-relaxed-math", "-cl-mad-enable")
LANES = (4, 8, 16)  # widths of the multiply-adds
SUMS = 12  # of multiply-adds at once: more than their latency, and few enough for 16 registers
FASTER = 1.4  # factor between a rate that doubles with the width and one that stays
SLOWER = 1.3  # factor between shifts of signed lanes that are emulated, 1.6 times the unsigned ones, and others, 1.0
ATTEMPTS = 6  # of measuring registers, until two agree
BYTES = 128  # of their buffer: the widest variable twice
PASSES = 50_000  # of a loop: 0.1 ms and more, while a launch takes 10 us
SAMPLES = 15  # of each rate, of which the fastest counts

_RATES = """
__kernel WIDE void peak(__global float *y, int count) {
  const float s = y[0];
  float16 w = (float16)(s), a = w, b = w + 1.0f, c = w + 2.0f, d = w + 3.0f, e = w + 4.0f, f = w + 5.0f, g = w + 6.0f,
          h = w + 7.0f;
  for (int i = 0; i < count; i++) {
    a += w * a; b += w * b; c += w * c; d += w * d; e += w * e; f += w * f; g += w * g; h += w * h;
  }
  a = a + b + c + d + e + f + g + h;
  y[get_global_id(0) + 1] = s * (a.s0 + a.s5 + a.sa + a.sf);  // s is 0, which the compiler does not know
}
__kernel WIDE void sweep(__global const float16 *x, __global float *y, int count) {
  float16 a = 0.0f, b = 0.0f;
  x += get_global_id(0) * 2;
  for (int i = 0; i < count; i++, x += 2 * get_global_size(0)) { a += x[0]; b += x[1]; }
  a += b;
  y[get_global_id(0) + 1] = a.s0 + a.s5 + a.sa + a.sf;
}
"""


@dataclass(frozen=True, slots=True)
class Rates:
    """Measured facts. Registers are a CPU's; for other devices they are 0, as nothing is measured."""

    vector_bits: int
    vector_registers: int
    peak_gflops: float
    bandwidth_gbs: float


def measured(cl: Any, handle: Any, key: str) -> Rates:
    """The facts of pyopencl's device, from the user's cache or measured now. Raises BuildError."""
    return Rates(**cached_rates("opencl.json", key, _from_json, lambda: asdict(measure(cl, handle))))


def _from_json(rates: Any) -> dict[str, Any]:
    return {name: (int if name.startswith("vector") else float)(rates[name]) for name in Rates.__dataclass_fields__}


def measure(cl: Any, handle: Any) -> Rates:
    """Measure the facts on the device, in a second or two. Raises BuildError if it cannot run even these kernels."""
    context = cl.Context([handle])
    queue = cl.CommandQueue(context)
    cpu = bool(handle.type & cl.device_type.CPU)
    try:
        bits, registers = _registers(cl, context, queue) if cpu else (0, 0)
        return Rates(bits, registers, *_rates(cl, handle, context, queue, cpu))
    except cl.Error as error:
        raise BuildError(error_line(error)) from None


def _rates(cl: Any, handle: Any, context: Any, queue: Any, cpu: bool) -> tuple[float, float]:
    """The GFLOP/s of multiply-adds and the GB/s of reading memory, with all compute units."""
    items, loops = (8 * handle.max_compute_units, 100_000) if cpu else (2048 * handle.max_compute_units, 2_000)
    floats = min(1 << 25, handle.max_mem_alloc_size // 4)  # 128 MiB, more than the caches hold
    program = build(cl, context, head(16) + _RATES, OPTIONS)
    y = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * (items + 1))
    x = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * floats)
    cl.enqueue_fill_buffer(queue, y, np.float32(0), 0, 4 * (items + 1))
    cl.enqueue_fill_buffer(queue, x, np.float32(0), 0, 4 * floats)
    local, steps = (1,) if cpu else (64,), floats // (32 * items)
    peak = _seconds(cl, queue, program, "peak", (items,), local, 20, y, np.int32(loops))
    sweep = _seconds(cl, queue, program, "sweep", (items,), local, 20, x, y, np.int32(steps))
    return round(items * loops * 256 / peak / 1e9, 1), round(steps * items * 128 / sweep / 1e9, 1)


def _registers(cl: Any, context: Any, queue: Any) -> tuple[int, int]:
    """The bits of a CPU's vector registers and their number, as its compiler uses them.

    Other programs disturb the clock, so it measures until two results agree.
    """
    program = build(cl, context, registers_text(), OPTIONS)
    y = cl.Buffer(context, cl.mem_flags.READ_WRITE, BYTES)
    cl.enqueue_fill_buffer(queue, y, np.uint32(0), 0, BYTES)
    results: list[tuple[int, int]] = []
    for _ in range(ATTEMPTS):
        seconds = {entry: _seconds(cl, queue, program, entry, (1,), (1,), SAMPLES, y, np.int32(PASSES))
                   for entry in (*(f"fma{lanes}" for lanes in LANES), "shift_signed", "shift_unsigned")}
        results.append(registers_of(seconds))
        if results[-1] in results[:-1]:
            break
    return results[-1]


def registers_of(seconds: Mapping[str, float]) -> tuple[int, int]:
    """The (bits, number) of the registers, from the seconds of each kernel of `registers_text`."""
    lanes = LANES[0]
    for wider in LANES[1:]:
        if 2 * seconds[f"fma{lanes}"] < FASTER * seconds[f"fma{wider}"]:
            break
        lanes = wider
    return 32 * lanes, 32 if seconds["shift_signed"] < SLOWER * seconds["shift_unsigned"] else 16


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


def _seconds(cl: Any, queue: Any, program: Any, entry: str, items: tuple[int, ...], local: tuple[int, ...],
             samples: int, *arguments: Any) -> float:
    """The shortest time of a launch."""
    kernel, shortest = cl.Kernel(program, entry), float("inf")
    for _ in range(samples):
        begin = time.perf_counter()
        kernel(queue, items, local, *arguments)
        queue.finish()
        shortest = min(shortest, time.perf_counter() - begin)
    return shortest
