"""CompileCheck: random configurations of kernel families, compiled for a device that need not be present.

A family declares formulas for what its kernels need (`shared_bytes`) and constraints that keep them within the device's
limits. What the compiled kernels need counts: each deviation of a declaration is a contradiction.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from seqtune.errors import MisuseError, SeqtuneError, one_line
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel, quantities
from seqtune.kernels.lookup import resolve
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.random_configurations import random_configurations
from seqtune.kernels.say import Say, silent

from .backends.backend import BuildError
from .backends.compilers import OFFLINE_COMPILERS, CompiledStep, OfflineCompiler, resource_usage


@dataclass(frozen=True, slots=True)
class Finding:
    """A configuration that did not compile, or that contradicts its family's declaration."""

    problem: Problem
    configuration: Configuration
    message: str

    def to_json(self) -> dict[str, object]:
        """A JSON object."""
        return {"problem": self.problem.to_json(), "configuration": dict(self.configuration.settings),
                "message": self.message}


@dataclass(frozen=True, slots=True)
class FamilyCheck:
    """The check of one family. Each range is the least and the most over all compiled configurations."""

    kernel: str
    drawn: int
    compiled: int
    failures: tuple[Finding, ...]
    contradictions: tuple[Finding, ...]
    spilling: int  # number of configurations with spills
    ranges: dict[str, tuple[float, float]]  # registers, shared, spill_bytes, blocks (of a unit), occupancy (share)
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether configurations were found, and all compiled without a contradiction."""
        return self.drawn > 0 and not self.failures and not self.contradictions

    def to_json(self) -> dict[str, object]:
        """A JSON object."""
        return {"kernel": self.kernel, "drawn": self.drawn, "compiled": self.compiled,
                "failures": [finding.to_json() for finding in self.failures],
                "contradictions": [finding.to_json() for finding in self.contradictions], "spilling": self.spilling,
                **{name: {"least": least, "most": most} for name, (least, most) in self.ranges.items()},
                "seconds": round(self.seconds, 2)}


def check_families(families: Iterable[Kernel], device: Device, sample: int, seed: int,
                   problems: Sequence[Problem] = (), progress: Say = silent) -> list[FamilyCheck]:
    """Compile `sample` random configurations of each family, except those that are not for the device.

    Raises MisuseError, UnavailableError.
    """
    compiler = offline_compiler(device)
    checks = []
    for family in families:
        if family.is_for(device):
            progress(f"{family.name}: drawing configurations")
            pairs = random_configurations(family, device, sample, seed, problems)
            checks.append(check_configurations(family, device, compiler, pairs, progress))
    return checks


def offline_compiler(device: Device) -> OfflineCompiler:
    """The compiler for a device that need not be present. Raises MisuseError, UnavailableError."""
    if device.backend not in OFFLINE_COMPILERS:
        raise MisuseError(f"kernels of {device.backend} are compiled where they run; "
                          f"--compile is for {', '.join(OFFLINE_COMPILERS)}")
    factory = resolve(OFFLINE_COMPILERS[device.backend])
    assert callable(factory)
    compiler: OfflineCompiler = factory(device)
    return compiler


def check_configurations(family: Kernel, device: Device, compiler: OfflineCompiler,
                         pairs: Sequence[tuple[Problem, Configuration]],
                         progress: Say = silent) -> FamilyCheck:
    """Compile configurations of a family in parallel and compare them with its declaration."""
    begin = time.monotonic()

    def compiled(pair: tuple[Problem, Configuration]) -> tuple[CompiledStep, ...] | str:
        try:
            return compiler.steps(pair[0], family, pair[1])
        except (BuildError, SeqtuneError) as error:
            return one_line(error)
        except Exception as error:  # a mistake in a kernel's generator is a failure like any other
            return one_line(f"{type(error).__name__}: {error}")

    failures: list[Finding] = []
    contradictions: list[Finding] = []
    steps: list[tuple[CompiledStep, ...]] = []
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for number, (pair, outcome) in enumerate(zip(pairs, threads.map(compiled, pairs), strict=True), start=1):
            if isinstance(outcome, str):
                failures.append(Finding(*pair, outcome))
            else:
                steps.append(outcome)
                contradictions += [Finding(*pair, message)
                                   for message in contradictions_of(family, *pair, device, outcome)]
            progress(f"{family.name}: {number} of {len(pairs)} compiled, {len(failures)} failed, "
                     f"{len(contradictions)} contradict")
    spills = [sum(step.spill_bytes for step in each) for each in steps]
    return FamilyCheck(family.name, len(pairs), len(steps), tuple(failures), tuple(contradictions),
                       sum(spill > 0 for spill in spills), _ranges(steps, device), time.monotonic() - begin)


def contradictions_of(family: Kernel, problem: Problem, configuration: Configuration, device: Device,
                      steps: Sequence[CompiledStep]) -> list[str]:
    """The ways in which a compiled configuration contradicts its family or exceeds the device, one line each."""
    if not steps:  # of a CPU, whose compiler tells no needs
        return []
    names = quantities(family.derived, problem, device, configuration)
    shared = max(step.shared for step in steps)
    messages = []
    if "shared_bytes" in names and names["shared_bytes"] != shared:
        messages.append(f"shared_bytes is {names['shared_bytes']} by the formula and {shared} in the compiled kernel")
    if "block_threads" in names and all(step.threads != names["block_threads"] for step in steps):
        messages.append(f"block_threads is {names['block_threads']} by the formula, and the blocks have "
                        f"{', '.join(str(step.threads) for step in steps)} threads")
    for step in steps:
        if step.shared > device.local_memory:
            messages.append(f"{step.entry} needs {step.shared} bytes of shared memory; "
                            f"the device has {device.local_memory}")
        elif step.threads > (step.most_threads or device.max_work_group):
            messages.append(f"{step.entry} is launched with {step.threads} threads and built for "
                            f"{step.most_threads or device.max_work_group}")
        elif not (fit := step.occupancy(device)).blocks:
            messages.append(f"{step.entry}: {step.threads} threads of {step.registers} registers do not fit in a "
                            f"unit ({fit.limit})")
    return messages


def _ranges(compiled: Sequence[tuple[CompiledStep, ...]], device: Device) -> dict[str, tuple[float, float]]:
    """The least and the most of each need over the configurations; of a call of several steps, the worst counts."""
    usages = [usage for usage in (resource_usage(steps, device) for steps in compiled) if usage is not None]
    if not usages:
        return {}
    columns: dict[str, list[float]] = {
        "registers": [usage.registers for usage in usages], "shared": [usage.shared_bytes for usage in usages],
        "spill_bytes": [usage.spill_bytes for usage in usages],
        "blocks": [min(step.occupancy(device).blocks for step in steps) for steps in compiled if steps],
        "occupancy": [round(usage.occupancy, 4) for usage in usages]}
    return {name: (min(values), max(values)) for name, values in columns.items()}
