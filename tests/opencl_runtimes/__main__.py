"""Check kernel texts on an OpenCL runtime: `python -m tests.opencl_runtimes [--runtime intel|oclgrind] [--sample N]`.

Every family whose text is OpenCL C, those of NVIDIA GPUs included, computes random configurations over random small
problems; results are compared with the float64 reference, and so are the margins around every buffer. Oclgrind gets
buffers without margins; it finds data races, reads and writes outside buffers, and barriers that not all work-items
reach. No time is taken.

A runtime other than PoCL is found by `--library`, or by INTEL_OPENCL_LIBRARY or OCLGRIND_LIBRARY, or where the system's
own folder of OpenCL vendors names it; Intel's also where the extra `intel-opencl` is installed. Exit code 1 says that
something was wrong.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common.program import positive, run_program
from seqtune.errors import ProblemError, SeqtuneError, UnavailableError

from .runtimes import PLATFORMS, environment, faults, library

if TYPE_CHECKING:
    import numpy as np

    from seqtune.kernels.devices.device import Device
    from seqtune.kernels.kernel import Configuration, Kernel
    from seqtune.kernels.launches.implementation import Array
    from seqtune.kernels.operations.operation import Operands
    from seqtune.kernels.problem import Problem
    from seqtune.tuner.backends.opencl.backend import OpenCLBackend

FAMILIES = ("cuda.shared_gemm", "cuda.shared_convolution", "opencl.implicit_gemm", "cuda.implicit_gemm", "cuda.gemm",
            "cuda.direct", "opencl.gemm", "opencl.direct")  # whose text is OpenCL C
MODELS = ("t4", "rtx-3060", "h200")  # whose spaces are sampled
MOST_DRAWS = 1000  # of a problem that a family solves
CHILD_SECONDS = 7200  # Oclgrind computes a configuration in about a second


def small_problem(generator: np.random.Generator, operation: str) -> Problem:
    """Draw a problem with odd sizes, small enough for a simulator. Raises ProblemError, as for too large a filter."""
    from seqtune.kernels.problem import Problem

    def pick(*values: Any) -> Any:
        return values[generator.integers(len(values))]

    epilogue = {"bias": pick("no", "yes"), "activation": pick("none", "relu")}
    if operation == "gemm":
        return Problem.make("gemm", m=pick(1, 5, 16, 33, 52), n=pick(1, 6, 16, 24, 37, 64), k=pick(1, 7, 16, 40, 66),
                            trans_a=pick("no", "yes"), trans_b=pick("no", "yes"), **epilogue)
    groups, r = pick(1, 1, 1, 2), pick(1, 1, 2, 3)
    return Problem.make(
        "conv2d", n=pick(1, 2), c=groups * pick(1, 3, 8, 16, 20), k=groups * pick(2, 4, 7, 16, 20, 34), groups=groups,
        h=pick(4, 5, 8), w=pick(4, 6, 8, 9), r=r, s=pick(r, 1, 3), pad_h=pick(0, 1), pad_w=pick(0, 0, 1, 2),
        stride_h=pick(1, 1, 2), stride_w=pick(1, 1, 2), dilation_h=pick(1, 1, 2), dilation_w=pick(1, 1, 2),
        layout=pick("NCHW", "NHWC"), **epilogue)


def devices_of(backend: str, limits: Device) -> list[Device]:
    """Devices whose spaces are sampled: GPUs of the table, or an OpenCL CPU and GPU, within a runtime's limits."""
    from seqtune.kernels.devices.accelerators import described
    from seqtune.kernels.devices.device import Device

    cpu = Device("opencl:cpu", "opencl", "any", "opencl-c-1.2", threads=2, compute_units=2, vector_bits=256,
                 vector_registers=16, l2_bytes=1 << 20, local_memory=48 << 10, max_work_group=1024)
    gpu = replace(cpu, name="opencl:gpu", threads=0, compute_units=40, vector_bits=128, vector_registers=64)
    devices = [cpu, gpu] if backend == "opencl" else [described(backend, model) for model in MODELS]
    return [replace(device, local_memory=min(device.local_memory, limits.local_memory),
                    max_work_group=min(device.max_work_group, limits.max_work_group))
            for device in devices if device is not None]


def draw(generator: np.random.Generator, family: Kernel, devices: list[Device]) -> tuple[Problem, Configuration]:
    """Draw a problem that the family solves, and one of its configurations. Raises SeqtuneError if it solves none."""
    from seqtune.kernels.space import SearchSpace

    for _ in range(MOST_DRAWS):
        device = devices[generator.integers(len(devices))]
        try:
            problem = small_problem(generator, family.operation)
        except ProblemError:
            continue
        if family.why_not(problem, device) is None and len(space := SearchSpace(family, problem, device)):
            return problem, space[int(generator.integers(len(space)))]
    raise SeqtuneError(f"{family.name} solves none of {MOST_DRAWS} small problems")


def open_runtime(runtime: str) -> OpenCLBackend:
    """Open the first device of the runtime, without measuring its rates. Raises UnavailableError."""
    from seqtune.kernels.devices.device import Device
    from seqtune.tuner.backends.opencl.backend import OpenCLBackend
    from seqtune.tuner.backends.opencl.calls import GroupLimits
    from seqtune.tuner.backends.opencl.discovery import load
    from seqtune.tuner.backends.opencl.pocl import repair
    from seqtune.tuner.backends.stored_operands import StoredOperands

    cl = load()
    platform = next((found for found in cl.get_platforms() if PLATFORMS[runtime] in found.name), None)
    if platform is None:
        raise UnavailableError(f"the OpenCL runtime {runtime} is not installed: name its library with --library")
    handle = platform.get_devices()[0]
    if runtime == "pocl":
        repair(handle.version.split()[-1], handle.int_ptr)
    backend = OpenCLBackend.__new__(OpenCLBackend)
    backend.cl, backend.handle, backend.programs = cl, handle, {}
    backend.device = Device(f"opencl:{runtime}", "opencl", runtime, "opencl-c-1.2", threads=0,
                            compute_units=handle.max_compute_units, local_memory=handle.local_mem_size,
                            max_work_group=handle.max_work_group_size)
    backend.context = cl.Context([handle])
    backend.queue = cl.CommandQueue(backend.context)
    backend.limits, backend.operands = GroupLimits(cl, handle, backend.device), StoredOperands()
    return backend


def compute(backend: OpenCLBackend, problem: Problem, family: Kernel, configuration: Configuration,
            operands: Operands) -> Array:
    """Launch once on buffers without margins: a simulator sees every access outside them, which margins would hide."""
    from seqtune.kernels.launches.call_declaration import call_of
    from seqtune.kernels.operations.table import operation
    from seqtune.tuner.backends.called_executable import CalledExecutable

    call = call_of(family, problem, backend.device, configuration)
    tensors = operation(problem.type).tensors(problem)
    executable = CalledExecutable(backend.calls, call, tensors, guarded=False, warm=False)
    executable.load(operands)
    executable.poison()
    executable.run()
    y = executable.outputs()["y"]
    executable.close()
    return y


def check_sample(runtime: str, sample: int, seed: int, names: list[str]) -> dict[str, Any]:
    """Compute `sample` random configurations, the families in turn. Returns their numbers, and what was wrong."""
    import numpy as np

    from seqtune.kernels.launches.call_declaration import call_of
    from seqtune.kernels.registry import kernel
    from seqtune.tuner.measuring.timing import check, prepare

    backend, generator = open_runtime(runtime), np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    wrong, barriers, worst = [], 0, 0.0
    for number in range(sample):
        family = kernel(names[number % len(names)])
        problem, configuration = draw(generator, family, devices_of(family.backends[0], backend.device))
        brief = f"{family.name} {configuration.brief()} on {problem.brief()}"
        print(f"{number + 1}/{sample} {brief}", file=sys.stderr, flush=True)
        operands, expected = prepare(problem)
        if runtime == "oclgrind":
            error = expected.error(compute(backend, problem, family, configuration, operands))
            message = "" if error <= expected.tolerance else f"error {error:.2e}"
        else:
            executable = backend.build(problem, family, configuration)
            checked, _ = check(executable, operands, expected)
            executable.close()
            error, message = checked.error or 0.0, checked.message
        if message:
            wrong.append(f"{brief}: {message}")
        worst = max(worst, error)
        barriers += "barrier(" in call_of(family, problem, backend.device, configuration).source.text
        counts[family.name] += 1
    return {"runtime": runtime, "seed": seed, "configurations": sample, "with_barriers": barriers,
            "families": dict(counts), "largest_error": worst, "wrong": wrong}


def supervise(given: argparse.Namespace) -> dict[str, Any]:
    """Run the checks in a child process that uses the runtime; add what a simulator found. Raises SeqtuneError."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        child = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "tests.opencl_runtimes", *sys.argv[1:], "--here"], check=False,
            capture_output=True, text=True, timeout=CHILD_SECONDS,
            env=environment(given.runtime, library(given.runtime, given.library), folder))
        if child.returncode != 0:
            last = (child.stderr or "").strip().splitlines()
            raise SeqtuneError(last[-1] if last else f"the child process ended with {child.returncode}")
        results: dict[str, Any] = json.loads(child.stdout.strip().splitlines()[-1])
        log = folder / "oclgrind.log"
        if given.runtime == "oclgrind":
            results["faults"] = asdict(faults(log.read_text() if log.exists() else ""))
        return results


def main() -> None:
    """Check the sample, print one line or a JSON object, and exit with 1 if anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.opencl_runtimes", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runtime", choices=sorted(PLATFORMS), default="pocl")
    parser.add_argument("--library", type=Path, help="the runtime's library, which an ICD loader loads")
    parser.add_argument("--sample", type=positive, default=100, help="number of configurations")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES), metavar="FAMILY")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        print(json.dumps(check_sample(given.runtime, given.sample, given.seed, given.families)))
        return
    results = supervise(given)
    found = sum(results.get("faults", {}).values())
    if given.json:
        print(json.dumps(results))
    else:
        print(f"{given.runtime}: {results['configurations']} configurations of {len(results['families'])} families, "
              f"{results['with_barriers']} with barriers; {len(results['wrong'])} wrong, largest error "
              f"{results['largest_error']:.1e}" + (f"; {results['faults']}" if "faults" in results else ""))
        print(*results["wrong"], sep="\n", end="\n" if results["wrong"] else "")
    if results["wrong"] or found:
        sys.exit(1)


if __name__ == "__main__":
    run_program("opencl_runtimes", main)
