"""Facts about this CPU: model, caches, and its measured fp32 peak and memory bandwidth."""

from __future__ import annotations

import platform
import time
from functools import lru_cache
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np

from ..measured_rates import cached_rates
from .compiler import INSTRUCTION_SETS, Compiler, toolchain
from .threads import Threads, make_job

CHAINS = 12  # independent sums: enough to hide the latency of a multiply-add, few enough for 16 registers
STREAM_BYTES = 1 << 27  # bytes read to measure the bandwidth; more than common last-level caches hold


@lru_cache(maxsize=1)
def cpu_model() -> str:
    """The manufacturer's name of this CPU."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.lower().startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def cpu_name() -> str:
    """LLVM's name of this CPU, such as "znver4"."""
    return str(llvm.get_host_cpu_name())


@lru_cache(maxsize=1)
def caches() -> dict[int, int]:
    """The data caches of one core: level -> bytes. Common sizes where the system does not report them."""
    sizes = {1: 32 << 10, 2: 512 << 10, 3: 0}
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
            if kind != "Instruction":
                sizes[int(level)] = int(size[:-1]) << (10 if size.endswith("K") else 20)
        except (OSError, ValueError):
            continue
    return sizes


def measured_rates(instruction_set: str, threads: int) -> tuple[float, float]:
    """The device's GFLOP/s and GB/s; measured once per CPU model and toolchain, then read from the user's cache."""
    key = f"{cpu_model()} | {cpu_name()} | {toolchain()} | {instruction_set}:{threads}"
    return cached_rates("cpu-rates.json", key, lambda rates: (float(rates[0]), float(rates[1])),
                        lambda: _measure(instruction_set, threads))


def _measure(instruction_set: str, threads: int) -> tuple[float, float]:
    lanes = INSTRUCTION_SETS[instruction_set][2] // 32
    compiler = Compiler(instruction_set)
    module, _ = compiler.build(_text(lanes))
    pool = Threads(compiler, threads)
    y = np.zeros(threads * 16 + 16, np.float32)
    stream = np.ones(STREAM_BYTES // 4, np.float32)
    best = {}
    try:
        for entry, count in (("peak", 100_000), ("stream", len(stream) // threads // (4 * lanes))):
            arguments = np.array([count], np.int64)
            job = make_job((stream.ctypes.data, 0, 0, y.ctypes.data, 0), arguments, [(module.address(entry), threads)])
            seconds = []
            for _ in range(12):
                begin = time.perf_counter()
                pool.run(job.ctypes.data)
                seconds.append(time.perf_counter() - begin)
            best[entry] = min(seconds) / count / threads
    finally:
        pool.close()
        compiler.close()
    return round(2e-9 * CHAINS * lanes / best["peak"], 1), round(16e-9 * lanes / best["stream"], 1)


def _text(lanes: int) -> str:
    """The IR of `peak` (multiply-adds in registers) and `stream` (reads four vectors per step); arguments[0]: steps."""
    kind = f"<{lanes} x float>"

    def loop(name: str, chains: int, start: str, body: list[str]) -> str:
        phis = [f"  %a{i} = phi {kind} [ zeroinitializer, %entry ], [ %b{i}, %loop ]" for i in range(chains)]
        total, lines = "%b0", []
        for i in range(1, chains):
            lines.append(f"  %sum{i} = fadd {kind} {total}, %b{i}")
            total = f"%sum{i}"
        return "\n".join([
            f"define void @{name}(ptr %x, ptr %w, ptr %bias, ptr %y, ptr %ws, ptr %a, i64 %begin, i64 %end) {{",
            "entry:", "  %steps = load i64, ptr %a, align 8", *start.splitlines(), "  br label %loop", "loop:",
            "  %i = phi i64 [ 0, %entry ], [ %i1, %loop ]", *phis, *body, "  %i1 = add i64 %i, 1",
            "  %more = icmp ult i64 %i1, %steps", "  br i1 %more, label %loop, label %out", "out:", *lines,
            "  %at = mul i64 %begin, 16", "  %to = getelementptr float, ptr %y, i64 %at",
            f"  store {kind} {total}, ptr %to, align 4", "  ret void", "}"])

    start = (f"  %f0 = load float, ptr %x, align 4\n  %f1 = insertelement {kind} poison, float %f0, i32 0\n"
             f"  %f = shufflevector {kind} %f1, {kind} poison, <{lanes} x i32> zeroinitializer")
    multiply = [f"  %b{i} = call contract {kind} @llvm.fmuladd.v{lanes}f32({kind} %f, {kind} %f, {kind} %a{i})"
                for i in range(CHAINS)]
    first = (f"  %size = mul i64 %steps, {4 * lanes}\n  %off = mul i64 %size, %begin\n"
             "  %base = getelementptr float, ptr %x, i64 %off")
    read = [f"  %o = mul i64 %i, {4 * lanes}", "  %p = getelementptr float, ptr %base, i64 %o"]
    for i in range(4):
        read += [f"  %p{i} = getelementptr float, ptr %p, i64 {i * lanes}",
                 f"  %v{i} = load {kind}, ptr %p{i}, align 4", f"  %b{i} = fadd {kind} %a{i}, %v{i}"]
    return "\n".join([f"declare {kind} @llvm.fmuladd.v{lanes}f32({kind}, {kind}, {kind})",
                      loop("peak", CHAINS, start, multiply), loop("stream", 4, first, read)])
