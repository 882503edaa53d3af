"""Check what is proposed for GPUs that are not here: `python -m benchmarks gpu_proposals --out docs`.

Random problems of every operation that GPUs solve are asked on twelve models, each with the predictor that answers by
default. Every proposal is checked by the declaration of its kernel family, one expression after the other, without the
tables of the search space that it was proposed from. The first proposals of three models are also compiled, and what
the compiled kernels need is compared with what the family declares.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, cycle, islice, zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.common.page import Page, Results, add_out, check_ready, publish
from benchmarks.common.program import OneLineParser, positive, whole
from benchmarks.common.progress import say
from benchmarks.common.report import Row, markdown, today
from seqtune.errors import MisuseError, ProblemError
from seqtune.kernels.devices.accelerators import BACKENDS, described
from seqtune.kernels.kernel import Configuration, Kernel, quantities
from seqtune.kernels.operations.draws import choose, jitter
from seqtune.kernels.operations.feature import Value
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.random_configurations import random_problems
from seqtune.kernels.registry import kernel

if TYPE_CHECKING:
    from seqtune.kernels.devices.device import Device

GPUS = ("t4", "a100", "rtx-3090", "l40s", "rtx-4090", "h100", "h200", "b200", "rtx-5090", "mi250x", "mi300x", "mi355x")
COMPILED = ("a100", "h100", "mi300x")  # sm_80, sm_90 and gfx942
BATCH = 32  # problems that are answered at once
TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
WIDTHS = (512, 768, 1024, 1536, 2048, 2880, 3584, 4096, 5120, 7168, 8192, 11008, 14336)  # of layers

Pairs = list[tuple[Problem, Configuration]]


def _scaled(generator: np.random.Generator) -> dict[str, Value]:
    return {"m": jitter(generator, choose(generator, TOKENS), 0.4), "n": choose(generator, WIDTHS),
            "k": choose(generator, WIDTHS), "dtype": str(generator.choice(["fp8_w8a8", "int8_w8a8"]))}


def _experts(generator: np.random.Generator) -> dict[str, Value]:
    experts = choose(generator, (8, 16, 64, 128, 160, 256))
    dtype = str(generator.choice(["bf16", "fp16", "fp8_w8a8", "int8_w8a16"]))
    block = 128 if dtype == "fp8_w8a8" and generator.random() < 0.5 else 0
    return {"tokens": jitter(generator, choose(generator, TOKENS), 0.4), "experts": experts,
            "top_k": choose(generator, (1, 2, 4, 6, 8)), "hidden": choose(generator, WIDTHS),
            "intermediate": choose(generator, WIDTHS) // choose(generator, (1, 2, 4)),
            "half": str(generator.choice(["up", "down"])), "dtype": dtype, "scale_n": block, "scale_k": block}


def _packed(generator: np.random.Generator) -> dict[str, Value]:
    weights, bits = (("int4", 4), ("int2", 2), ("int1", 1), ("int8", 8))[generator.integers(4)]
    return {"m": choose(generator, TOKENS), "n": choose(generator, WIDTHS), "k": choose(generator, WIDTHS),
            "dtype": str(generator.choice(["fp16", "bf16"])), "weight_dtype": weights,
            "packed": choose(generator, (1,) if bits == 8 else (8 // bits, 32 // bits)), "scale_n": 1,
            "scale_k": choose(generator, (64, 128))}


# Operations in the order in which they take turns, those of most users more often
TURNS = ("gemm", "conv2d", "gemm", "fused_moe", "gemm", "conv2d", "scaled_gemm", "quantized_gemm")
# Operation without a sampler of its own -> how its features are drawn here
DRAWS: Mapping[str, Callable[[np.random.Generator], dict[str, Value]]] = {
    "fused_moe": _experts, "scaled_gemm": _scaled, "quantized_gemm": _packed}


def drawn(operation: str, generator: np.random.Generator) -> Iterator[Problem]:
    """Endless random problems of an operation."""
    if operation not in DRAWS:
        while True:
            yield from random_problems(operation, generator)
    while True:
        try:
            yield Problem.make(operation, **DRAWS[operation](generator))
        except ProblemError:  # such as more experts for a token than there are
            continue


def problems(count: int, seed: int) -> list[Problem]:
    """Distinct random problems; the operations take turns."""
    sources = {name: drawn(name, np.random.default_rng([seed, number]))
               for number, name in enumerate(dict.fromkeys(TURNS))}
    chosen: dict[Problem, None] = {}
    for name in cycle(TURNS):
        if len(chosen) >= count:
            break
        chosen.setdefault(next(sources[name]))
    return list(chosen)


def broken(problem: Problem, device: Device, family: Kernel, configuration: Configuration) -> str | None:
    """The reason why a configuration is not valid by its family's declaration, or None if it is."""
    reason = family.why_not(problem, device)
    if reason is not None:
        return reason
    if [name for name, _ in configuration.settings] != [parameter.name for parameter in family.parameters]:
        return "other parameters than the family has"
    for parameter in family.parameters:
        if configuration[parameter.name] not in parameter:
            return f"{parameter.name} has another value than the family knows"
    names = quantities(family.derived, problem, device, configuration)
    return next((constraint.reason for constraint in family.constraints if not constraint.expression(names)), None)


def check_device(device: Device, asked: Sequence[Problem], top: int) -> tuple[list[Row], Pairs]:
    """Rows by operation and predictor, and the first proposals that an implementation here can compile."""
    from seqtune.predictor.answering import answering_many, propose_many

    rows: dict[tuple[str, str], Row] = {}
    first: Pairs = []
    for begin in range(0, len(asked), BATCH):
        answered, _ = answering_many(asked[begin:begin + BATCH], device)
        proposed = propose_many([*answered.values()], top, evidence=False)
        for (problem, asking), candidates in zip(answered.items(), proposed, strict=True):
            row = rows.setdefault((problem.type, str(asking.name)), {
                "device": device.name, "architecture": device.architecture, "operation": problem.type,
                "predictor": str(asking.name), "problems": 0, "proposals": 0, "invalid": 0, "reasons": {}})
            reasons = Counter[str](row["reasons"])
            row["problems"] += 1
            for candidate in candidates:
                row["proposals"] += 1
                configuration = candidate.configuration
                why = broken(problem, device, kernel(configuration.kernel), configuration)
                if why is not None:
                    row["invalid"] += 1
                    reasons[why] += 1
            row["reasons"] = dict(reasons)
            if kernel(candidates[0].configuration.kernel).implementation is not None:
                first.append((problem, candidates[0].configuration))
    return list(rows.values()), first


def compile_first(device: Device, pairs: Pairs, count: int) -> list[Row]:
    """Compile `count` proposals, of which the families have equal parts as far as they can: rows by family."""
    from seqtune.tuner.compile_check import check_configurations, offline_compiler

    by_family: dict[str, Pairs] = {}
    for pair in pairs:
        by_family.setdefault(pair[1].kernel, []).append(pair)
    turns = chain.from_iterable(zip_longest(*by_family.values()))
    chosen = list(islice((pair for pair in turns if pair is not None), count))
    compiler = offline_compiler(device)
    return [{"device": device.name, "architecture": device.architecture, **check_configurations(
        kernel(name), device, compiler, [pair for pair in chosen if pair[1].kernel == name], say).to_json()}
            for name in by_family if any(pair[1].kernel == name for pair in chosen)]


def evaluate(given: argparse.Namespace) -> dict[str, Any]:
    """Ask, check and compile."""
    asked = problems(given.problems, given.seed)
    rows: list[Row] = []
    compiled: list[Row] = []
    for model in given.gpus:
        devices = [device for backend in BACKENDS if (device := described(backend, model)) is not None]
        if not devices:
            raise MisuseError(f"no GPU is called {model!r:.40}")
        for number, device in enumerate(devices):
            say(f"{device.name}: {len(asked)} problems")
            own, first = check_device(device, asked, given.top)
            rows += own
            if model in COMPILED and given.compiled:
                share = given.compiled // len(devices) + (number < given.compiled % len(devices))
                compiled += compile_first(device, first, share)
    return {"date": today(), "problems": len(asked), "top": given.top, "seed": given.seed, "gpus": list(given.gpus),
            "rows": rows, "compiled": compiled}


def table(results: Results) -> str:
    """The counts by GPU and predictor, and those of the compiled proposals."""
    lines = []
    for device in dict.fromkeys(row["device"] for row in results["rows"]):
        for predictor in dict.fromkeys(row["predictor"] for row in results["rows"] if row["device"] == device):
            part = [row for row in results["rows"] if (row["device"], row["predictor"]) == (device, predictor)]
            lines.append([device, part[0]["architecture"], predictor, ", ".join(row["operation"] for row in part),
                          *(f"{sum(row[name] for row in part):,}" for name in ("problems", "proposals", "invalid"))])
    asked = markdown(["GPU", "architecture", "answers", "operations", "problems", "proposals", "invalid"], lines, 4)
    compiled = markdown(
        ["GPU", "architecture", "kernel", "compiled", "failed", "other needs than declared", "that spill"],
        [[row["device"], row["architecture"], row["kernel"], f"{row['compiled']}", f"{len(row['failures'])}",
          f"{len(row['contradictions'])}", f"{row['spilling']}"] for row in results["compiled"]], 3)
    return f"{asked}\n\n{compiled}" if results["compiled"] else asked


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows, compiled = results["rows"], results["compiled"]
    proposals, invalid = (sum(row[name] for row in rows) for name in ("proposals", "invalid"))
    failed, contradicting = (sum(len(row[name]) for row in compiled) for name in ("failures", "contradictions"))
    claim = (f"{invalid:,} of {proposals:,} proposals for {results['problems']:,} problems on {len(results['gpus'])} "
             "GPUs break a constraint of their kernel.")
    if compiled:
        claim += (f" {sum(row['drawn'] for row in compiled)} first proposals were compiled for "
                  f"{len({row['architecture'] for row in compiled})} architectures: {failed} failed, and "
                  f"{contradicting} need other registers, threads or shared memory than declared.")
    return Page(
        "gpu_proposals", "Proposals for GPUs are valid", claim,
        f"python -m benchmarks gpu_proposals --problems {results['problems']} --out docs", table(results),
        f"Checked on {results['date']}; no GPU was used.",
        "Each problem is asked on each GPU with the predictor that answers there by default. A proposal is checked by "
        "the declaration of its kernel, expression by expression. `that spill` counts kernels with registers in local "
        "memory, which is slow and no fault.",
        ("The kernels of gemlite and of the servers' experts and scaled products are in other packages, so their "
         "proposals are checked and not compiled here; the tests compile some of them.",))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    parser.add_argument("--problems", type=positive, default=2000)
    parser.add_argument("--top", type=positive, default=5, help="proposals for each problem (5)")
    parser.add_argument("--gpus", type=lambda text: tuple(text.split(",")), default=GPUS, help="models, with commas")
    parser.add_argument("--compiled", type=whole, default=200,
                        help=f"first proposals to compile for each of {', '.join(COMPILED)} (200; 0: none)")
    parser.add_argument("--seed", type=int, default=0)
    add_out(parser)
    given = parser.parse_args(arguments)
    check_ready(given.out)
    results = evaluate(given)
    publish(given.out, page, results)
    print(table(results))
