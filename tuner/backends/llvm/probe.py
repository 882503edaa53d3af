"""Probe: what this CPU does in a second: multiply-adds, reads from each level of memory, waking threads, gathers.

Every rate is measured in short rounds, and the fastest counts once the two fastest rounds agree: other work on the
machine makes rounds slower, never faster. Rates are those of all threads of a device together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from seqtune.kernels.devices.device import Device

from ..measured_rates import Values, best_agree, repeat_until_agreement
from .compiler import INSTRUCTION_SETS, Compiler
from .threads import Threads, make_job

CHAINS = 12  # independent sums: enough to hide the latency of a multiply-add, few enough for 16 registers
STREAM_BYTES = 1 << 27  # bytes read to measure the memory's bandwidth; more than common last-level caches hold
SHARED_BYTES = 1 << 24  # bytes read of a last-level cache at most: a cloud machine's share of a large one is unknown
AGREEMENT = 0.03  # the two fastest rounds, and the two best repetitions, differ by less
ROUNDS = (4, 60)  # least and most rounds of one rate
SECONDS = 0.05  # for one rate at most, since the rounds on a busy machine may never agree
REPETITIONS = 5  # least number of times that all rates are measured: of five, up to two were in a bad tenth of a second
REPETITION_SECONDS = 1.0  # after which no further repetition begins
TIMES = ("gather_nanoseconds",)  # of the rates whose best value counts, those that are times
TYPICAL = ("bandwidth_gbs", "wake_microseconds")  # the median counts: neighbours on the host decide about the best
ROUND_SECONDS = 5e-4  # of one round: long against waking threads and reading clocks, short against interruptions
PHASES = 64  # empty phases of one job: each wakes all threads and waits for them
STRIDE = 2  # numbers between two gathered ones, as under a filter of stride 2

Rates = dict[str, float]


def probe(instruction_set: str, threads: int, caches: Mapping[int, int]) -> Rates:
    """Measure the rates of a device, by the names of the facts of `Device`; 0: not known. `caches`: level -> bytes.

    All rates are measured several times, and the best of each counts; of the rates in TYPICAL, the median.
    """
    prober = _Prober(instruction_set, threads, caches)
    try:
        measured = repeat_until_agreement(prober.measure, _agree, REPETITIONS, REPETITION_SECONDS)
    finally:
        prober.close()
    rates = {name: float(np.median([rates[name] for rates in measured])) if name in TYPICAL else _best(name, measured)
             for name in measured[0]}
    return {name: float(f"{rate:.4g}") for name, rate in rates.items()}


def _best(name: str, measured: Sequence[Values]) -> float:
    """The best value of a rate: times are the better the shorter."""
    return (min if name in TIMES else max)(rates[name] for rates in measured)


def _agree(measured: Sequence[Values]) -> bool:
    """Whether the two best values of every rate agree whose best value counts."""
    return all(best_agree([rates[name] for rates in measured], AGREEMENT, name not in TIMES)
               for name in measured[0] if name not in TYPICAL)


class _Prober:
    """The threads, machine code and buffers with which rates are measured."""

    def __init__(self, instruction_set: str, threads: int, caches: Mapping[int, int]) -> None:
        self.lanes, self.threads, self.caches = INSTRUCTION_SETS[instruction_set].vector_bits // 32, threads, caches
        self._compiler = Compiler(instruction_set)
        self._module, _ = self._compiler.build(_text(self.lanes))
        self._pool = Threads(self._compiler, threads)
        raw = np.ones(STREAM_BYTES // 4 + 16, np.float32)
        self._stream = raw[-raw.ctypes.data % 64 // 4:]  # loads that cross cache lines take twice as long
        self._sums = np.zeros(threads * 16 + 16, np.float32)

    def close(self) -> None:
        self._pool.close()
        self._compiler.close()

    def measure(self) -> Rates:
        """Measure each rate once."""
        steps, gathers = 20_000, max(1, self.caches[1] // 2 // (4 * STRIDE * self.lanes))
        l3 = min(self.caches[3] // (4 * self.threads), SHARED_BYTES)
        multiplied = CHAINS * self.lanes * self.threads / self._step_seconds("multiply", steps)
        return {
            "peak_gflops": 2e-9 * multiplied, "bandwidth_gbs": self._read(STREAM_BYTES // self.threads),
            "l1_gbs": self._read(self.caches[1] // 2), "l2_gbs": self._read(self.caches[2] // 2),
            "l3_gbs": self._read(l3) if l3 >= 2 * self.caches[2] else 0.0,  # else the second level would hold it
            "wake_microseconds": self._seconds("nothing", 1, 1, PHASES) / PHASES * 1e6 if self.threads > 1 else 0.0,
            "gather_nanoseconds": self._step_seconds("gather", gathers) / self.lanes * 1e9}

    def _read(self, size: int) -> float:
        """GB/s of reading `size` bytes again and again by each thread; 0 for caches that are not known."""
        step = CHAINS * self.lanes * 4  # bytes that one thread reads in one step
        steps = min(size, STREAM_BYTES // self.threads) // step
        return self.threads * step / self._step_seconds("read", steps) / 1e9 if steps else 0.0

    def _step_seconds(self, entry: str, steps: int) -> float:
        """The seconds of one step, of as many passes over `steps` steps as a round has time for."""
        once = self._seconds(entry, steps, 1, rounds=(3, 3))
        passes = max(1, round(ROUND_SECONDS / max(1e-6, once)))  # launching alone takes about a microsecond
        return self._seconds(entry, steps, passes) / (steps * passes)

    def _seconds(self, entry: str, steps: int, passes: int, phases: int = 1,
                 rounds: tuple[int, int] = ROUNDS) -> float:
        """The seconds of a job that runs the entry on all threads, in each of its phases."""
        arguments = np.array([steps, passes], np.int64)
        job = make_job((self._stream.ctypes.data, 0, 0, self._sums.ctypes.data, 0), arguments,
                       [(self._module.address(entry), self.threads, 1)] * phases)
        return fastest_round(lambda: self._pool.run(job.ctypes.data), rounds)


def fastest_round(work: Callable[[], None], rounds: tuple[int, int] = ROUNDS,
                  clock: Callable[[], float] = time.perf_counter) -> float:
    """The seconds of the fastest round of `work`, repeated until the two fastest agree or the time is over.

    `rounds` are the least and the most.
    """
    least, most = rounds
    taken: list[float] = []
    started = clock()
    while len(taken) < most:
        began = clock()
        work()
        taken.append(clock() - began)
        if len(taken) >= least:
            first, second = sorted(taken)[:2]
            if second <= first * (1 + AGREEMENT) or clock() - started > SECONDS:
                break
    return min(taken)


def multiply_text(lanes: int) -> str:
    """The IR of `multiply`, CHAINS multiply-adds of vectors with so many lanes; arguments: steps of a pass, passes."""
    kind = f"<{lanes} x float>"
    factor = (f"  %f0 = load float, ptr %x, align 4\n  %f1 = insertelement {kind} poison, float %f0, i32 0\n"
              f"  %f = shufflevector {kind} %f1, {kind} poison, <{lanes} x i32> zeroinitializer")
    multiply = [f"  %b{i} = call contract {kind} @llvm.fmuladd.v{lanes}f32({kind} %f, {kind} %f, {kind} %a{i})"
                for i in range(CHAINS)]
    return (f"declare {kind} @llvm.fmuladd.v{lanes}f32({kind}, {kind}, {kind})\n"
            + _loops("multiply", kind, CHAINS, factor, multiply))


def _text(lanes: int) -> str:
    """The IR of `multiply`, `read`, `gather` and `nothing`; arguments: steps of a pass, passes."""
    kind = f"<{lanes} x float>"
    base = f"  %size = mul i64 %steps, {CHAINS * lanes}\n  %off = mul i64 %size, %begin\n" \
           "  %base = getelementptr float, ptr %x, i64 %off"
    read = [f"  %o = mul i64 %i, {CHAINS * lanes}", "  %p = getelementptr float, ptr %base, i64 %o"]
    for i in range(CHAINS):
        read += [f"  %p{i} = getelementptr float, ptr %p, i64 {i * lanes}",
                 f"  %v{i} = load {kind}, ptr %p{i}, align 4", f"  %b{i} = fadd {kind} %a{i}, %v{i}"]
    offsets = ", ".join(f"i64 {STRIDE * i}" for i in range(lanes))
    gather = [f"  %o = mul i64 %i, {STRIDE * lanes}", "  %p = getelementptr float, ptr %x, i64 %o",
              f"  %q = getelementptr float, ptr %p, <{lanes} x i64> <{offsets}>",
              f"  %v = call {kind} @llvm.masked.gather.v{lanes}f32.v{lanes}p0(<{lanes} x ptr> %q, i32 4, "
              f"<{lanes} x i1> splat (i1 true), {kind} poison)", f"  %b0 = fadd {kind} %a0, %v"]
    return "\n".join([
        multiply_text(lanes),
        f"declare {kind} @llvm.masked.gather.v{lanes}f32.v{lanes}p0(<{lanes} x ptr>, i32, <{lanes} x i1>, {kind})",
        _loops("read", kind, CHAINS, base, read),
        _loops("gather", kind, 1, "", gather), f"define void @nothing({_PARAMETERS}) {{", "  ret void", "}"])


_PARAMETERS = "ptr %x, ptr %w, ptr %bias, ptr %y, ptr %ws, ptr %a, i64 %begin, i64 %end"


def _loops(name: str, kind: str, chains: int, start: str, body: list[str]) -> str:
    """The IR of a function that repeats its steps in passes and stores the sum of its chains."""
    outer = [f"  %c{i} = phi {kind} [ zeroinitializer, %entry ], [ %b{i}, %next ]" for i in range(chains)]
    inner = [f"  %a{i} = phi {kind} [ %c{i}, %pass ], [ %b{i}, %step ]" for i in range(chains)]
    total, sums = "%b0", []
    for i in range(1, chains):
        sums.append(f"  %sum{i} = fadd {kind} {total}, %b{i}")
        total = f"%sum{i}"
    return "\n".join([
        f"define void @{name}({_PARAMETERS}) {{", "entry:", "  %steps = load i64, ptr %a, align 8",
        "  %passes_p = getelementptr i64, ptr %a, i64 1", "  %passes = load i64, ptr %passes_p, align 8",
        *start.splitlines(), "  br label %pass", "pass:", "  %j = phi i64 [ 0, %entry ], [ %j1, %next ]", *outer,
        "  br label %step", "step:", "  %i = phi i64 [ 0, %pass ], [ %i1, %step ]", *inner, *body,
        "  %i1 = add i64 %i, 1", "  %more = icmp ult i64 %i1, %steps", "  br i1 %more, label %step, label %next",
        "next:", "  %j1 = add i64 %j, 1", "  %again = icmp ult i64 %j1, %passes",
        "  br i1 %again, label %pass, label %out", "out:", *sums, "  %at = mul i64 %begin, 16",
        "  %to = getelementptr float, ptr %y, i64 %at", f"  store {kind} {total}, ptr %to, align 4", "  ret void", "}"])


STEPS = 6000  # some 20 us: long against waking a thread, short against the sample of a kernel


class LLVMReferenceWork:
    """The same number of multiply-adds for each of the threads. Use it from the thread that uses them."""

    def __init__(self, device: Device, compiler: Compiler, threads: Threads) -> None:
        lanes = INSTRUCTION_SETS[device.instruction_set].vector_bits // 32
        self._threads = threads
        self._module, _ = compiler.build(multiply_text(lanes))
        self._factor = np.ones(16, np.float32)
        self._sums = np.zeros(device.threads * 16 + 16, np.float32)
        self._arguments = np.array([STEPS, 1], np.int64)
        self._job = make_job((self._factor.ctypes.data, 0, 0, self._sums.ctypes.data, 0), self._arguments,
                             [(self._module.address("multiply"), device.threads, 1)])
        self.expected = 2e-9 * CHAINS * lanes * STEPS * device.threads / device.peak_gflops

    def seconds(self) -> float:
        """Do the work once, and return its time in seconds."""
        began = time.perf_counter()
        self._threads.run(self._job.ctypes.data)
        return time.perf_counter() - began
