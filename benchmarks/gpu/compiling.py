"""Compile slice: the sources of the chosen configurations, each compiled once, on all cores, into the cache.

Measuring then waits for no compiler. Sources depend on few features of a problem, so there are far fewer of them than
measurements. The result lists what the compiler refused, and the registers and spills of the rest.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import TYPE_CHECKING

from benchmarks.gpu.choices import ordered, pool, task_of
from benchmarks.gpu.collecting import PASSES
from benchmarks.gpu.day import Day
from benchmarks.gpu.shapes import convolutions, products
from benchmarks.gpu.slices import SliceOutcome
from seqtune.errors import UnavailableError
from seqtune.kernels.launches.call_declaration import call_of
from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.registry import kernel
from seqtune.tuner.backends.backend import BuildError
from seqtune.tuner.processes import processors

if TYPE_CHECKING:
    from seqtune.tuner.backends.cuda.compiler import Image

AHEAD = 2  # sources for each core that wait while the next ones are written
MOST_LISTED = 50  # failures


def sources(day: Day) -> Iterator[tuple[KernelSource, str]]:
    """The distinct sources in the order in which the data slices need them, each with the name of its family."""
    groups = [products(dtype, day.sizes.shapes) for dtype in ("bf16", "fp16")]
    groups += [convolutions(dtype, day.sizes.batches, day.sizes.layers) for dtype in ("fp16", "fp32")]
    seen: set[KernelSource] = set()
    for problems in groups:
        chosen = pool(problems.ordered, day.device, day.sizes.configurations)
        for problem in problems.ordered:
            task = task_of(problem, day.device)
            for configuration in () if task is None else ordered(task, chosen)[:PASSES[1]]:
                source = call_of(kernel(configuration.kernel), problem, day.device, configuration).source
                if source not in seen:
                    seen.add(source)
                    yield source, configuration.kernel


def run(day: Day, name: str) -> SliceOutcome:
    """Compile until everything is compiled or the time is up. Raises UnavailableError without NVRTC, and for others."""
    if day.device.backend != "cuda":
        raise UnavailableError(f"kernels of {day.device.backend} are compiled where they are measured")
    from seqtune.tuner.backends.cuda.compiler import CubinCompiler

    compiler = CubinCompiler(day.device)
    began, finished = time.monotonic(), True
    families: Counter[str] = Counter()
    spilled: Counter[str] = Counter()
    failures: list[dict[str, str]] = []
    waiting: dict[Future[Image], str] = {}
    cores = processors()

    def take(least: int) -> None:
        """Wait until at most `least` sources are being compiled, and note the results."""
        while len(waiting) > least:
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                family = waiting.pop(future)
                try:
                    resources = future.result().resources.values()
                except BuildError as error:
                    failures.append({"kernel": family, "message": str(error)[:300]})
                    continue
                families[family] += 1
                spilled[family] += any(entry.spill_stores for entry in resources)

    with ThreadPoolExecutor(cores) as threads:
        for source, family in islice(sources(day), day.sizes.compiled):
            if not day.left:
                finished = False
                break
            waiting[threads.submit(compiler.compile, source)] = family
            take(AHEAD * cores)
        take(0)
    seconds = time.monotonic() - began
    total = sum(families.values()) + len(failures)
    return SliceOutcome(finished, f"{total} sources in {seconds:.1f} s on {cores} cores, {len(failures)} refused", {
        "sources": total, "seconds": round(seconds, 2), "cores": cores, "target": compiler.target,
        "compiled": dict(families), "spilled": dict(spilled), "refused": failures[:MOST_LISTED]}, failed=bool(failures))
