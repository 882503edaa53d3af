"""Measure CLBlast's configurations on this machine: `python -m benchmarks clblast_collect STEP`.

    plan     adds configurations to the plan: drawn ones, or with --round those that trees expect to be fast
    build    builds planned configurations and checks their results on six products; the driver's cache keeps them
    measure  checks and times what is built, every configuration on every product, for --seconds
    compare  times the fastest configurations of every training product again, in interleaved rounds, for --seconds
    further  times the configurations that were fast on a tuned product on further ones, for --seconds

Nothing else should run during the last three; their times are from drivers that load programs from their cache. The
folder holds the plan, the list of what is built, and the journal. Every step can be stopped at any time and continued.
A configuration that crashed or hung while it was built is not tried again.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.common.program import OneLineParser, positive
from seqtune.data.journal import Journal
from seqtune.data.record import COMPARED, Measurement, Record, Status
from seqtune.errors import one_line
from seqtune.kernels.clblast import xgemm, xgemm_direct
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.backend import Backend, BuildError, LaunchError, build_executable, open_backend
from seqtune.tuner.backends.discovery import find
from seqtune.tuner.measuring.comparison import typical
from seqtune.tuner.measuring.timing import Expected, Options, check, check_and_time, prepare, time_in_rounds

from .clblast_plan import Plan, drawn, promising
from .clblast_problems import HELD_OUT, further, held_out, training, tuned

FAMILIES = (xgemm_direct.KERNEL, xgemm.KERNEL)
BY_NAME = {family.name: family for family in FAMILIES}
# Each way to store the operands, with and without sizes that fit the tiles: between them they use every kernel.
CHECKED = [parse_problem(f"gemm m={m} n={n} k={k} trans_a={a} trans_b={b}") for m, n, k, a, b in (
    (128, 128, 128, "no", "no"), (128, 256, 128, "yes", "yes"), (67, 131, 45, "no", "no"), (33, 70, 99, "yes", "no"),
    (66, 39, 130, "no", "yes"), (131, 67, 41, "yes", "yes"))]
TRIED, HOPELESS = 25, 0.5  # a configuration below this share of the best speed on so many products is not tried on more
FASTEST, ROUNDS = 20, 12  # configurations compared on a product, and rounds of a pass
GROUP = 3  # rounds whose samples become one record, whose time is the least of them
FAST = 1.1  # factor on the best time: some hundred configurations are as fast on at least one product
MEASURING = Options(samples=7, longest_seconds=0.25, drop_factors=(3.0, 1.6, 1.3))


class Folder:
    """The files of a collection."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.plan = Plan(path / "plan.jsonl")
        self.built_path = path / "built.jsonl"
        self.journal = Journal(path / "journal.sqlite")

    def states(self) -> dict[str, str]:
        """The last state of each configuration, by kernel and key: `trying`, `built` or the reason of a failure."""
        lines = self.built_path.read_text().splitlines() if self.built_path.exists() else []
        return {line["key"]: line["state"] for line in map(json.loads, lines)}

    def note(self, configuration: Configuration, state: str) -> None:
        """Store the state of a configuration."""
        with self.built_path.open("a") as file:
            file.write(json.dumps({"key": key_of(configuration), "state": state}) + "\n")

    def times(self) -> dict[Problem, dict[Configuration, float]]:
        """The measured seconds by product and configuration; infinite where it failed."""
        times: dict[Problem, dict[Configuration, float]] = defaultdict(dict)
        for record in self.journal.records():
            if record.run not in COMPARED:
                times[record.problem][record.configuration] = record.measurement.seconds
        return times

    def compared(self) -> dict[Problem, dict[Configuration, list[float]]]:
        """The samples of the configurations that were compared on each product."""
        compared: dict[Problem, dict[Configuration, list[float]]] = defaultdict(lambda: defaultdict(list))
        for record in self.journal.records():
            if record.run in COMPARED:
                compared[record.problem][record.configuration] += record.measurement.samples
        return compared


def key_of(configuration: Configuration) -> str:
    """The kernel and the settings as text."""
    return f"{configuration.kernel} {configuration.key}"


def plan(folder: Folder, given: argparse.Namespace) -> None:
    """Add configurations to the plan."""
    device = find(given.device)
    if not given.round:
        added = sum(folder.plan.add(drawn(family, device, count, given.seed))
                    for family, count in zip(FAMILIES, (given.count // 4, given.count - given.count // 4), strict=True))
    else:
        wanted = set(tuned()) if not given.held_out else set(held_out())
        times = {problem: known for problem, known in folder.times().items() if problem in wanted}
        chosen = promising(times, device, FAMILIES, given.count, given.each, given.round)
        added = folder.plan.add(chosen[:given.most], given.held_out)
    print(f"{added} configurations planned, {len(folder.plan.configurations())} in all")


def build(folder: Folder, given: argparse.Namespace) -> None:
    """Build and check the configurations of the plan that were not tried."""
    backend = open_backend(find(given.device))
    prepared = {problem: prepare(problem) for problem in CHECKED}
    states = folder.states()
    order = folder.plan.configurations()[::-1 if given.last_first else 1]
    waiting = [configuration for configuration in order if key_of(configuration) not in states]
    end = time.monotonic() + given.seconds
    for number, configuration in enumerate(waiting):
        if time.monotonic() > end:
            print(f"{len(waiting) - number} left")
            return
        if key_of(configuration) in folder.states():  # another process tries it
            continue
        folder.note(configuration, "trying")
        began, state = time.monotonic(), "built"
        for problem in CHECKED:
            if (family := _solving(backend, problem, configuration)) is None:
                continue
            try:
                executable = build_executable(backend, problem, family, configuration)
                result, _ = check(executable, *prepared[problem])
                executable.close()
                if result.status is not Status.CORRECT:
                    state = f"{problem.brief()}: {result.message}"
            except (BuildError, LaunchError) as error:
                state = f"{problem.brief()}: {one_line(error)}"
        folder.note(configuration, state)
        elapsed = time.monotonic() - began
        print(f"{number + 1}/{len(waiting)} {elapsed:.1f} s {configuration.brief()}: {state}", flush=True)
    print("all are tried")


def _solving(backend: Backend, problem: Problem, configuration: Configuration) -> Kernel | None:
    """The kernel family of a configuration, or None if the configuration is not valid for the product."""
    family = BY_NAME[configuration.kernel]
    return family if configuration in SearchSpace(family, problem, backend.device) else None


def measure(folder: Folder, given: argparse.Namespace) -> None:
    """Time every configuration that is built on every product, for the given seconds."""
    began = time.monotonic()
    backend, device = open_backend(find(given.device)), find(given.device)
    folder.journal.add_device(device)
    times, states = folder.times(), folder.states()
    problems, only_held_out = [*held_out(), *tuned()], folder.plan.for_held_out()
    prepared = {problem: prepare(problem) for problem in problems}
    waiting = [configuration for configuration in folder.plan.configurations()
               if states.get(key_of(configuration), "trying") != "trying"
               and not any(configuration in times[problem] for problem in problems)]
    measured = 0
    for number, configuration in enumerate(waiting):
        if time.monotonic() - began > given.seconds:
            print(f"{measured} times in {time.monotonic() - began:.0f} s; {len(waiting) - number} configurations left")
            return
        family = BY_NAME[configuration.kernel]
        shares: list[float] = []
        for index in np.random.default_rng(number).permutation(len(problems)).tolist():
            problem = problems[index]
            if configuration in only_held_out and index >= HELD_OUT:
                continue
            best = min(times[problem].values(), default=float("inf"))
            if configuration in times[problem] or (len(shares) >= TRIED and max(shares) < HOPELESS):
                continue
            result = build_and_time(backend, problem, configuration, prepared[problem], best)
            shares.append(min(1.0, best / result.seconds))
            folder.journal.add(Record(problem, device.key, family.version, configuration, device.toolchain, result,
                                      time.time(), given.run, platform.node(), device.fingerprint))
            times[problem][configuration] = result.seconds
            measured += 1
    print(f"{measured} times in {time.monotonic() - began:.0f} s; all are measured")


def build_and_time(backend: Backend, problem: Problem, configuration: Configuration,
                   prepared: tuple[Operands, Expected], best: float) -> Measurement:
    """Build, check and time one configuration for one product."""
    try:
        executable = build_executable(backend, problem, BY_NAME[configuration.kernel], configuration)
    except BuildError as error:
        return Measurement(Status.COMPILE, message=one_line(error))
    except LaunchError as error:
        return Measurement(Status.RUNTIME, message=one_line(error))
    try:
        return check_and_time(executable, *prepared, MEASURING, best)
    finally:
        executable.close()


def compare(folder: Folder, given: argparse.Namespace) -> None:
    """Time the fastest configurations of training products together, those first that were compared least."""
    began = time.monotonic()
    backend, device = open_backend(find(given.device)), find(given.device)
    folder.journal.add_device(device)
    times, compared, only_held_out = folder.times(), folder.compared(), folder.plan.for_held_out()
    done = {problem: max(map(len, compared[problem].values()), default=0) for problem in training() if times[problem]}
    waiting = sorted(done, key=done.__getitem__)
    for number, problem in enumerate(waiting):
        if time.monotonic() - began > given.seconds:
            print(f"{number} products in {time.monotonic() - began:.0f} s; {len(waiting) - number} left")
            return
        known = [configuration for configuration in times[problem] if configuration not in only_held_out]
        chosen = list(compared[problem]) or sorted(known, key=times[problem].__getitem__)[:FASTEST]
        for configuration, samples in together(backend, problem, chosen, done[problem]).items():
            family = BY_NAME[configuration.kernel]
            for first in range(0, len(samples), GROUP):
                result = Measurement(Status.CORRECT, samples[first:first + GROUP])
                folder.journal.add(Record(problem, device.key, family.version, configuration, device.toolchain, result,
                                          time.time(), COMPARED[0], platform.node(), device.fingerprint))
    print(f"{len(waiting)} products in {time.monotonic() - began:.0f} s")


def together(backend: Backend, problem: Problem, configurations: Sequence[Configuration],
             seed: int) -> dict[Configuration, tuple[float, ...]]:
    """The samples of each correct configuration in interleaved rounds."""
    executables = [build_executable(backend, problem, BY_NAME[configuration.kernel], configuration)
                   for configuration in configurations]
    try:
        timed = time_in_rounds(executables, *prepare(problem), ROUNDS, Options(order_seed=seed))
    finally:
        for executable in executables:
            executable.close()
    return {configuration: measurement.samples for configuration, measurement in zip(configurations, timed, strict=True)
            if measurement is not None and measurement.status is Status.CORRECT}


def measure_further(folder: Folder, given: argparse.Namespace) -> None:
    """Time the configurations that were fast on a tuned product on further products, one product after another."""
    began = time.monotonic()
    backend, device = open_backend(find(given.device)), find(given.device)
    times, only_held_out = folder.times(), folder.plan.for_held_out()
    configurations = [configuration for configuration in fast(folder.compared(), tuned())
                      if configuration not in only_held_out]
    waiting = [problem for problem in further() if len(times[problem]) < len(configurations)]
    for number, problem in enumerate(waiting):
        if time.monotonic() - began > given.seconds:
            print(f"{len(configurations)} configurations; {len(waiting) - number} products left")
            return
        prepared = prepare(problem)
        for configuration in configurations:
            if configuration in times[problem]:
                continue
            best = min(times[problem].values(), default=float("inf"))
            result = build_and_time(backend, problem, configuration, prepared, best)
            family = BY_NAME[configuration.kernel]
            folder.journal.add(Record(problem, device.key, family.version, configuration, device.toolchain, result,
                                      time.time(), given.run, platform.node(), device.fingerprint))
            times[problem][configuration] = result.seconds
    print(f"{len(configurations)} configurations; all are measured")


def fast(compared: Mapping[Problem, Mapping[Configuration, Sequence[float]]],
         problems: Sequence[Problem]) -> list[Configuration]:
    """The configurations that took at most FAST times the best one's time on a product, the most frequent first."""
    frequent: Counter[Configuration] = Counter()
    for problem in problems:
        times = typical(compared[problem])
        least = min(times.values(), default=0.0)
        frequent.update(configuration for configuration, seconds in times.items() if seconds <= FAST * least)
    return [configuration for configuration, _ in frequent.most_common()]


STEPS = {"plan": plan, "build": build, "measure": measure, "compare": compare, "further": measure_further}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one step."""
    parser = OneLineParser(__doc__)
    parser.add_argument("step", choices=tuple(STEPS))
    parser.add_argument("--folder", type=Path, required=True, help="holds the plan and the journal")
    parser.add_argument("--device", default="opencl:0", help="an OpenCL device of this machine")
    parser.add_argument("--count", type=positive, default=150, help="plan: configurations, of both kernels together")
    parser.add_argument("--round", type=int, default=0, help="plan: 0 draws, later rounds follow the times so far")
    parser.add_argument("--each", type=positive, default=1, help="plan: further configurations of every product")
    parser.add_argument("--most", type=positive, default=1000, help="plan: maximum number of a later round")
    parser.add_argument("--held-out", action="store_true",
                        help="plan: for the held-out products; measured on them alone")
    parser.add_argument("--seed", type=int, default=0, help="plan: of the drawn configurations")
    parser.add_argument("--last-first", action="store_true", help="build: from the plan's end, as a second process")
    parser.add_argument("--seconds", type=float, default=50.0, help="time limit of every step but plan")
    parser.add_argument("--run", default="shared", help="measure, further: name of the run in the journal")
    given = parser.parse_args(arguments)
    STEPS[given.step](Folder(given.folder), given)
