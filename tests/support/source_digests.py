"""Digests of what the kernel families generate: a change under the same version would let old records answer for it.

`python -m tests.support.source_digests` writes them after a family's `version` was raised. A change that alters no
instruction (names, comments) keeps the version: `python -m tests.support.source_digests --neutral llvm.direct`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from seqtune.kernels.devices.accelerators import BACKENDS
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.launches.call import ScalarArgument
from seqtune.kernels.launches.call_declaration import call_of
from seqtune.kernels.llvm.launch import llvm_implementation
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.registry import kernel, names
from seqtune.kernels.space import SearchSpace
from tests.support.devices import described_gpu
from tests.support.oddities import odd_problems

PATH = Path(__file__).with_name("source_digests.json")
DEVICES = {  # whatever is measured on: the text must not depend on the machine that runs the test
    "llvm": Device("llvm:avx2:2", "llvm", "haswell", "avx2", threads=2, compute_units=2, vector_bits=256,
                   l1_bytes=32 << 10, l2_bytes=1 << 20, l3_bytes=8 << 20, extra=(("bf16_dots", 1), ("amx_bf16", 1))),
    "opencl": Device("opencl:gpu", "opencl", "gpu", "opencl-c-1.2", threads=0, compute_units=80, vector_registers=64,
                     local_memory=48 << 10, max_work_group=1024),
    **{backend: described_gpu(backend, "h100") for backend in BACKENDS},
}
PROBLEMS = 6  # of each family: every layout and epilogue, most likely
CONFIGURATIONS = 3  # of each problem


def samples(family: Kernel) -> list[str]:
    """Problems and configurations of a family, as `problem | configuration`.

    They are stored: a changed space must not change what is compared.
    """
    device = DEVICES[family.backends[0]]
    spaces = [SearchSpace(family, problem, device) for problem in odd_problems(family, device, 4 * PROBLEMS, seed=3)]
    spaces = [space for space in spaces if len(space)][:PROBLEMS]
    return [f"{space.problem.key} | {configuration.key}"
            for index, space in enumerate(spaces)
            for configuration in space.sample(np.random.default_rng(index), CONFIGURATIONS)]


def digest(family: Kernel, chosen: list[str]) -> str:
    """One digest of the texts, options and launches that a family generates for these samples."""
    device, found = DEVICES[family.backends[0]], hashlib.sha256()
    content_of = content_of_launch if "llvm" in family.backends else content_of_call
    for sample in chosen:
        key, _, settings = sample.partition(" | ")
        problem, configuration = parse_problem(key), Configuration.of(family.name, json.loads(settings))
        found.update(json.dumps(content_of(family, problem, device, configuration)).encode())
    return found.hexdigest()


def content_of_launch(family: Kernel, problem: Problem, device: Device, configuration: Configuration) -> list[object]:
    """Everything that an llvm family generates for a configuration."""
    implementation = llvm_implementation(family)
    source = implementation.source(problem, device, configuration)
    launch = implementation.launch(problem, device, configuration)
    phases = [[phase.entry, phase.tasks, (), ()] for phase in launch.phases]
    return [source.text, source.options, launch.arguments, phases, launch.workspace]


def content_of_call(family: Kernel, problem: Problem, device: Device, configuration: Configuration) -> list[object]:
    """Everything that another family generates for a configuration.

    The numbers stand in the order in which they stood before there were calls, so that digests remain.
    """
    call = call_of(family, problem, device, configuration)
    numbers = [int(argument.number) for argument in call.steps[0].arguments if isinstance(argument, ScalarArgument)]
    steps = [[step.entry, 0, step.global_size, step.local_size,
              *([step.shared, step.cluster] if "cuda" in family.backends else [])] for step in call.steps]
    return [call.source.text, call.source.options, numbers, steps,
            sum(workspace.count for workspace in call.workspaces())]


def stored() -> dict[str, dict[str, Any]]:
    """family -> version, samples, digest."""
    entries: dict[str, dict[str, Any]] = json.loads(PATH.read_text()) if PATH.exists() else {}
    return entries


def main() -> None:
    """Store the digests of families that are new or have a new version, or whose change is said to be neutral."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--neutral", nargs="*", default=[], metavar="FAMILY")
    neutral, before, after = parser.parse_args().neutral, stored(), {}
    for name in names():
        family, entry = kernel(name), before.get(name)
        if family.implementation is None:
            continue
        if entry is None or entry["version"] != family.version:
            chosen = samples(family)
        else:
            chosen = entry["samples"]
            if digest(family, chosen) != entry["digest"] and name not in neutral:
                sys.exit(f"{name} generates other code, but is still version {family.version}: raise its version, or "
                         f"name it with --neutral where no instruction differs")
        after[name] = {"version": family.version, "digest": digest(family, chosen), "samples": chosen}
    PATH.write_text(json.dumps(after, indent=1) + "\n")


if __name__ == "__main__":
    main()
