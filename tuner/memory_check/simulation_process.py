"""The simulating process: runs configurations of a library's OpenCL kernels on Oclgrind, once each.

`python -m seqtune.tuner.memory_check.simulation_process` reads one JSON object: {libraries, kernels, sample, begin}. It
writes JSON lines: {run: index, kernel, problem, settings} before a configuration runs, {messages, error} after it, and
{done} at the end. The parent kills it when a configuration takes too long, and goes on with the next one.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from seqtune.errors import MisuseError, SeqtuneError, one_line
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.launches.call_declaration import call_of
from seqtune.kernels.libraries.messages import use_messages
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace

from ..backends.backend import BuildError, LaunchError
from ..backends.called_executable import CalledExecutable
from ..backends.opencl.calls import GroupLimits, OpenCLCalls
from ..backends.opencl.discovery import load
from ..backends.opencl.programs import build
from ..measuring.expected_outputs import prepare_arrays
from ..processes import die_with_parent
from .check import LOG, PLATFORM

SIZES = (8, 16, 17, 32, 33, 64, 100, 128, 256)  # of whole-number features in small problems: round and odd ones
MOST_ELEMENTS = 300_000  # of all arrays of a problem: the simulator runs a million instructions a second
PROBLEMS = 2  # of each kernel


class Simulator:
    """Oclgrind's device with a call driver."""

    def __init__(self) -> None:
        self.cl = load()
        platform = next(platform for platform in self.cl.get_platforms() if platform.name == PLATFORM)
        self.handle = platform.get_devices()[0]
        self.device = Device("opencl:oclgrind", "opencl", "simulator", "opencl-c-1.2", model=PLATFORM,
                             local_memory=self.handle.local_mem_size, max_work_group=self.handle.max_work_group_size)
        self.context = self.cl.Context([self.handle])
        self.calls = OpenCLCalls(self.cl, self.context, self.cl.CommandQueue(self.context),
                                 GroupLimits(self.cl, self.handle, self.device),
                                 lambda source: build(self.cl, self.context, source.text, source.options))

    def run(self, problem: Problem, family: Kernel, configuration: Configuration) -> None:
        """Run a configuration once on exact buffers, without margins. Raises BuildError, LaunchError, SeqtuneError."""
        arrays, tensors = prepare_arrays(problem)
        call = call_of(family, problem, self.device, configuration)
        executable = CalledExecutable(self.calls, call, tensors, guarded=False, warm=False)
        executable.load(arrays)
        executable.poison()
        executable.run()
        executable.close()


def small_problems(family: Kernel, device: Device) -> list[Problem]:
    """The smallest problems with configurations of the kernel; its example if no small one has any."""
    work = operation(family.operation)
    problems: dict[Problem, None] = {}
    for size in SIZES:
        features = {feature.name: feature.nearest(size) for feature in work.features
                    if feature.required and not feature.choices and not feature.number}
        features |= {feature.name: feature.choices[0] for feature in work.features  # type: ignore[misc]
                     if feature.required and feature.choices}
        try:
            problem = Problem.make(work.name, **features)
            if elements(problem) <= MOST_ELEMENTS and len(SearchSpace(family, problem, device)):
                problems.setdefault(problem)
        except MisuseError:  # it breaks a rule, or the kernel does not solve it
            continue
        if len(problems) == PROBLEMS:
            break
    return list(problems)


def elements(problem: Problem) -> int:
    """The number of elements of all arrays."""
    tensors = operation(problem.type).tensors(problem)
    return sum(tensor.size for tensor in (*tensors.inputs.values(), *tensors.outputs.values()))


def chosen(families: list[Kernel], device: Device, sample: int) -> Iterator[tuple[Problem, Kernel, Configuration]]:
    """The configurations to run: of each problem the default, then random ones, `sample` of each kernel."""
    for family in families:
        problems = small_problems(family, device)
        for number, problem in enumerate(problems):
            space = SearchSpace(family, problem, device)
            count = sample * (number + 1) // len(problems) - sample * number // len(problems)
            drawn = space.sample(np.random.default_rng(number), min(count, len(space)))
            for configuration in list(dict.fromkeys([space.default, *drawn]))[:count]:
                yield problem, family, configuration


def main() -> None:
    """Answer the request on standard input."""
    die_with_parent()
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what the simulator prints goes to standard error

    def send(**message: Any) -> None:
        channel.write(json.dumps(message) + "\n")

    request = json.loads(sys.stdin.readline())
    use_messages(request["libraries"])
    log = tempfile.TemporaryFile()  # noqa: SIM115 - has no name, so that a kill leaves no file behind
    os.environ[LOG] = f"/dev/fd/{log.fileno()}"
    simulator = Simulator()
    families = [kernel(name) for name in request["kernels"]]
    for index, (problem, family, configuration) in enumerate(chosen(families, simulator.device, request["sample"])):
        if index < request["begin"]:
            continue
        send(run=index, kernel=family.name, problem=problem.brief(), settings=configuration.brief())
        error = ""
        try:
            simulator.run(problem, family, configuration)
        except (BuildError, LaunchError, SeqtuneError) as failure:
            error = one_line(failure)
        send(messages=log.read().decode(errors="replace"), error=error)  # those since the last run
    send(done=True)


if __name__ == "__main__":
    main()
