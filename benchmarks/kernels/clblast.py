"""Compare parameters for CLBlast on held-out products: `python -m benchmarks clblast --journal FILE --out docs`.

The journal is that of `benchmarks.data.clblast_collect`. For every held-out product, CLBlast's own parameters, the
checkpoint's proposals, those of the nearest training product, random ones and the fastest measured ones run in one
process, in rounds of random order, each sample of 200 microseconds or more; every result is checked first. A method
with five measurements chooses by the odd rounds; all methods are judged by the even ones. A time is the median of the
rounds, each brought to one level, because all configurations are slower for some rounds: the least of 20 samples
differs by 5 % between halves of one contest, such a median by 2 %. `--build` builds the programs and stops, so that a
second run, alone on the machine, takes its times from programs in the driver's cache. With `--rows` a run that was
stopped is continued with the next product.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.page import Page, Results, measured_on, publish
from benchmarks.common.program import parser_of, positive
from benchmarks.common.report import machine, markdown
from benchmarks.data.clblast_collect import BY_NAME, FAMILIES, Folder
from benchmarks.data.clblast_problems import held_out, training
from seqtune.data.record import Measurement, Status
from seqtune.errors import FormatError
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.similarity import distance
from seqtune.kernels.task import Task
from seqtune.predictor.checkpoint_folder import find as find_checkpoint
from seqtune.tuner.backends.backend import Backend, Executable, build_executable, open_backend
from seqtune.tuner.backends.clblast.calls import DIRECT, ROUTINE, SWITCH, XGEMM, CLBlastCalls
from seqtune.tuner.backends.discovery import find
from seqtune.tuner.measuring.comparison import level_rounds, typical
from seqtune.tuner.measuring.timing import Options, prepare, time_in_rounds

BUDGET = 5  # measurements of the methods that measure
KNOWN = 8  # fastest configurations of the journal that run again: the first of them were lucky
DRAWN = 120  # first configurations of the plan, drawn to fill the spaces; `random` takes from them: they are built
ORACLE = "oracle"  # chooses among all configurations of the contest by the odd rounds: no method can do better
METHODS = ("default", "zero-shot", "five proposals", "nearest", "nearest five", "random five", ORACLE)
Choices = dict[Problem, dict[str, list[Configuration]]]


def choices(folder: Folder, device_name: str, checkpoint: str) -> Choices:
    """The configurations of each method for each held-out product."""
    from seqtune.predictor.answering import Answering

    device, times, chosen = find(device_name), folder.times(), {}
    compared, only_held_out = folder.compared(), folder.plan.for_held_out()
    shared = folder.plan.configurations()[:DRAWN]
    for problem in held_out():
        task = Task.of(problem, device, FAMILIES)
        proposals = list(Answering.of(task, checkpoint).propose(BUDGET))
        near = min(training(), key=lambda other: distance(problem, other))
        seconds = typical(compared[near])
        nearest = [configuration for configuration in sorted(seconds, key=seconds.__getitem__)
                   if configuration not in only_held_out and task.find(configuration) is not None][:BUDGET]
        valid = [configuration for configuration in shared if task.find(configuration) is not None]
        generator = np.random.default_rng(zlib.crc32(problem.key.encode()))
        drawn = [valid[index] for index in generator.choice(len(valid), BUDGET, replace=False)]
        known = [configuration for configuration in sorted(times[problem], key=times[problem].__getitem__)
                 if task.find(configuration) is not None][:KNOWN]
        chosen[problem] = {"default": [task.default], "zero-shot": proposals[:1], "five proposals": proposals,
                           "nearest": nearest[:1], "nearest five": nearest, "random five": drawn, "known": known}
    return chosen


def contest(backend: Backend, problem: Problem, methods: Mapping[str, Sequence[Configuration]],
            rounds: int) -> dict[Configuration, Measurement]:
    """Check all configurations and time them in interleaved rounds."""
    distinct = list(dict.fromkeys(configuration for group in methods.values() for configuration in group))
    executables: list[Executable | None] = [
        build_executable(backend, problem, BY_NAME[configuration.kernel], configuration) for configuration in distinct]
    operands, expected = prepare(problem)
    seed = zlib.crc32(problem.key.encode())
    timed = time_in_rounds(executables, operands, expected, rounds, Options(order_seed=seed))
    for executable in executables:
        if executable is not None:
            executable.close()
    return {configuration: measurement for configuration, measurement in zip(distinct, timed, strict=True)
            if measurement is not None}


def halves(measured: Mapping[Configuration, Measurement]) -> dict[Configuration, tuple[float, float]]:
    """The seconds of each configuration by the odd and by the even rounds; those of a failure are infinite."""
    rounds = max(len(measurement.samples) for measurement in measured.values())
    level = level_rounds({configuration: measurement.samples for configuration, measurement in measured.items()
                          if measurement.status is Status.CORRECT and len(measurement.samples) == rounds})
    return {configuration: (float(np.median(level[configuration][1::2])), float(np.median(level[configuration][::2])))
            if configuration in level else (math.inf, math.inf) for configuration in measured}


def row_of(problem: Problem, methods: Mapping[str, Sequence[Configuration]],
           measured: Mapping[Configuration, Measurement], known: int) -> dict[str, Any]:
    """The seconds of each method, which chose by the odd rounds, in the even ones."""
    times, seconds = halves(measured), {}
    for name in METHODS:
        choice = min(measured if name == ORACLE else methods[name], key=lambda configuration: times[configuration][0])
        seconds[name] = times[choice][1]
    return {"problem": problem.brief(), "flop": problem.size("flop"), "seconds": seconds,
            "best": min(even for _, even in times.values()), "measured": known,
            "configuration": {"kernel": methods["zero-shot"][0].kernel, **dict(methods["zero-shot"][0].settings)},
            "failed": sum(measurement.status is not Status.CORRECT for measurement in measured.values())}


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """The means over the products: the speed over the default, geometric, and the share of the best known speed."""
    means = {}
    for name in METHODS:
        over = [row["seconds"]["default"] / row["seconds"][name] for row in rows]
        shares = [row["best"] / row["seconds"][name] for row in rows]
        means[name] = {"over_default": float(np.exp(np.mean(np.log(over)))), "least_over_default": min(over),
                       "share": float(np.mean(shares)), "least_share": min(shares)}
    return means


def tables(results: Results) -> str:
    """The means, and the products."""
    means = results["summary"]
    text = markdown(["method", "speed over CLBlast's default", "least", "share of the best known", "least "], [
        [name, f"{mean['over_default']:.2f}", f"{mean['least_over_default']:.2f}", f"{mean['share']:.3f}",
         f"{mean['least_share']:.3f}"] for name, mean in means.items()])
    lines = [[row["problem"], f"{1e6 * row['seconds']['default']:.0f}", f"{1e6 * row['seconds']['zero-shot']:.0f}",
              f"{row['flop'] / row['seconds']['zero-shot'] / 1e9:.1f}",
              f"{row['seconds']['default'] / row['seconds']['zero-shot']:.2f}",
              *(f"{row['best'] / row['seconds'][name]:.3f}"
                for name in ("zero-shot", "five proposals", "nearest five"))]
             for row in results["rows"]]
    return text + "\n\n" + markdown(["product", "default, µs", "zero-shot, µs", "GFLOP/s", "speed over the default",
                                     "share of the best", "five proposals", "nearest five"], lines)


def page(results: Results) -> Page:
    """Make the page of the results."""
    means, count = results["summary"], len(results["rows"])
    first, five = means["zero-shot"], means["five proposals"]
    known = [row["measured"] for row in results["rows"]]
    return Page(
        "clblast", "CLBlast with predicted parameters",
        f"On {count} held-out matrix products, CLBlast with the parameters of the first proposal, unmeasured, is "
        f"{first['over_default']:.2f} times as fast as with its own (geometric mean; least "
        f"{first['least_over_default']:.2f}) and reaches {first['share']:.3f} of the best known speed; the best of "
        f"five measured proposals reaches {five['share']:.3f}, and an oracle's choice {means[ORACLE]['share']:.3f}.",
        "python -m benchmarks clblast_collect --help\n"
        "python -m benchmarks clblast --journal JOURNAL_FOLDER --out docs", tables(results),
        measured_on(results),
        "`best known` is the fastest of everything that ran in this contest, which includes the fastest of "
        f"{min(known)} to {max(known)} configurations measured before for each product, some of them proposed for "
        "these products by trees that knew their times; the checkpoint has learned from no time of those. All run in "
        f"{results['rounds']} interleaved rounds; a time is the median of the rounds, brought to one level. Methods "
        "with five measurements choose by the odd rounds; all are judged by the even ones. `oracle` chooses by the odd "
        "rounds among all that ran, so its distance to 1 is the noise of these times, and no method can do better.",
        (f"CLBlast's own parameters are those that its RetrieveParameters returned on this device: "
         f"{results['defaults']}.",
         "`random five` is drawn from the shared configurations that were drawn to fill the spaces and are built; "
         "`nearest` takes the fastest configurations of the nearest of the training products.",
         "The aims were 0.93 without measuring and 0.98 with five measurements.",
         "The five proposals are the checkpoint's first five.",
         "No held-out product is near a training one (all sizes within a factor of 1.25, same transpositions).",
         "One CPU through PoCL; parameters for a GPU need measurements of it."))


def defaults_of(backend: Any) -> str:
    """CLBlast's own parameters on the device, as text; they must be those that the contest calls its default."""
    parameters = CLBlastCalls(backend.queue).defaults()
    declared = {XGEMM: FAMILIES[1], DIRECT: FAMILIES[0]}
    for name, family in declared.items():
        if parameters[name] != dict(family.default):
            print(f"clblast: {name} differs from the declared default: {parameters[name]}", file=sys.stderr)
    return "; ".join(f"{name} " + " ".join(f"{key}={value}" for key, value in parameters[name].items())
                     for name in (XGEMM, DIRECT)) + f"; {SWITCH}={parameters[ROUTINE][SWITCH]}"


def finished(path: Path | None, run: str) -> list[dict[str, Any]]:
    """The rows of the products that an earlier call finished in a run of the same name. Raises FormatError."""
    if path is None or not path.exists():
        return []
    try:
        rows = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]  # the last may be cut
        return [row["row"] for row in rows if row["run"] == run]
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path} is no file of finished products ({error!r:.80})") from None


def run_name(checkpoint: str, device: str, rounds: int) -> str:
    """Whatever the rows of a run depend on: the checkpoint's weights, the device and the number of rounds."""
    folder = find_checkpoint(checkpoint)
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.glob("*.safetensors")))).hexdigest()
    return f"{digest[:16]} {device} {rounds}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--journal", type=Path, required=True, help="the folder of the collection")
    parser.add_argument("--device", default="opencl:0", help="an OpenCL device")
    parser.add_argument("--checkpoint", default="clblast", help="name or folder")
    parser.add_argument("--rounds", type=positive, default=60, help="samples of each configuration")
    parser.add_argument("--rows", type=Path, help="a file of finished products, which are not measured again")
    parser.add_argument("--build", action="store_true", help="only build the programs")
    given = parser.parse_args(arguments)
    folder = Folder(given.journal)
    backend = open_backend(find(given.device))
    defaults = defaults_of(backend)
    times = folder.times()
    name = run_name(given.checkpoint, given.device, given.rounds)
    rows = {row["problem"]: row for row in finished(given.rows, name)}
    for problem, methods in choices(folder, given.device, given.checkpoint).items():
        if problem.brief() in rows:
            continue
        measured = contest(backend, problem, methods, 1 if given.build else given.rounds)
        if not given.build:
            row = rows[problem.brief()] = row_of(problem, methods, measured, len(times[problem]))
            if given.rows is not None:
                with given.rows.open("a") as file:
                    file.write(json.dumps({"run": name, "row": row}) + "\n")
            print(json.dumps(row), file=sys.stderr, flush=True)
    if not given.build:
        results = {"machine": machine([find(given.device)]), "defaults": defaults, "rounds": given.rounds,
                   "summary": summary(list(rows.values())), "rows": list(rows.values())}
        print(json.dumps(results) if given.json else tables(results))
        publish(given.out, page, results)
