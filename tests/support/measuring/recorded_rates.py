"""Recorded rates of this machine's CPU devices, so that no test measures them and none depends on what else runs.

Measuring takes seconds, and what a busy machine measures is kept for minutes and comes with a warning. The run of the
tests writes recorded rates once into its own cache folder, by the product's own functions: the processes that tests
start find them there as well. Tests of the measuring itself have a folder of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

from tests.support.paths import ROOT

# Rates of one core of a server CPU of 2022, as the product measured them, but a tenth of the multiply-adds. Workers
# that measure wait while a CPU computes slower than its rate: on a machine that is slower or busy, with a narrower
# instruction set, or with kernels that PoCL does not optimise, that would take most of their time.
ONE_CORE = {"peak_gflops": 11.7, "bandwidth_gbs": 10.2, "l1_gbs": 146.3, "l2_gbs": 117.4, "l3_gbs": 98.8,
            "gather_nanoseconds": 0.362}
WAKE_MICROSECONDS = 0.1  # of several threads; one thread wakes nobody
OPENCL = {"peak_gflops": 11.9, "bandwidth_gbs": 10.2}
MOST_THREADS = 8  # of the devices that tests name


def cpu_rates(threads: int) -> dict[str, float]:
    """The rates of a device of the llvm backend."""
    shared = {name: rate if name == "gather_nanoseconds" else rate * threads for name, rate in ONE_CORE.items()}
    return {**shared, "wake_microseconds": WAKE_MICROSECONDS if threads > 1 else 0.0}


def keep() -> None:
    """Write the rates into the cache folder that the environment names, in a process of its own.

    The process opens OpenCL, whose devices are found once in a process, and tests must find them themselves.
    """
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    subprocess.run([sys.executable, str(Path(__file__))], cwd=ROOT, check=True, env={**os.environ, "PYTHONPATH": path})


def write() -> None:
    """Write the rates into the cache folder of this process."""
    from seqtune.tuner.backends.llvm import facts
    from seqtune.tuner.backends.llvm.compiler import instruction_sets
    from seqtune.tuner.backends.measured_rates import RateCache
    from seqtune.tuner.backends.opencl import discovery, probe
    from seqtune.tuner.load import Load, LoadMeter

    class QuietMeter(LoadMeter):
        def load(self) -> Load:
            return Load()

    cache, opencl = RateCache(open_meter=QuietMeter), probe.Rates(vector_bits=256, vector_registers=16, **OPENCL)
    for name in instruction_sets():
        for threads in range(1, max(MOST_THREADS, os.cpu_count() or 1) + 1):
            facts.measured_rates(name, threads, cache, lambda _, threads, caches: cpu_rates(threads))
    with suppress(Exception):  # no OpenCL, or no platform: pyopencl has exceptions of its own
        discovery.discover(discovery.load(), partial(discovery.device_facts, rates_of=partial(
            probe.measured_facts, cache=cache, measure=lambda cl, handle: opencl)))


if __name__ == "__main__":
    write()
