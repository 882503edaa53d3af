"""The commands that say what is here: devices, kernels, and whether this machine measures well (doctor)."""

from __future__ import annotations

from typing import Annotated

import typer

from ...errors import MisuseError
from ..application import PROBLEM_WORDS, AsJson, JournalPath, Seed, answer, app
from ..arguments import refuse_options

SAMPLE = 200  # configurations of each family that are compiled


@app.command(epilog="Example: seqtune devices --json")
def devices(
    every: Annotated[bool, typer.Option(
        "--all", help="Also the GPUs that one can predict and compile for without having them.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the devices found with their main facts, and why other backends are unavailable."""
    from ... import api
    from ..tables import listing as tables

    result = api.devices(described=every)
    answer(result.to_json()) if as_json else tables.devices(result)


@app.command(context_settings=PROBLEM_WORDS, epilog="Example: seqtune kernels --compile cuda:h200 --sample 20")
def kernels(
    words: Annotated[list[str] | None, typer.Argument(
        metavar="FAMILY|FILE", show_default=False,
        help="Kernel families (triton.gemm), a library to check (library.toml), or a JSON file of kernels, as --json "
             "prints them. With --compile: families or a problem.")] = None,
    problems: Annotated[str | None, typer.Option(
        "--problems", metavar="SET_OR_FILE", show_default=False,
        help="With a library to check: the problems.  [default: some within the bounds of the features]")] = None,
    compile_for: Annotated[str | None, typer.Option(
        "--compile", metavar="DEVICE", show_default=False,
        help="Compile random configurations for this GPU, present or not, and check the declarations.")] = None,
    sample: Annotated[int | None, typer.Option(
        "--sample", min=1, max=100_000, show_default=False,
        help=f"With --compile or --check-memory: configurations of each family.  [default: {SAMPLE}; 20]")] = None,
    seed: Seed = 0,
    memory: Annotated[bool, typer.Option(
        "--check-memory", help="With a library to check: run OpenCL kernels under Oclgrind, which finds races and "
                               "accesses beside buffers.")] = False,
    as_json: AsJson = False,
    libraries: tuple[str, ...] = (),
) -> None:
    """Show kernel families: the problems they solve, their parameters and constraints. Or check a library's file."""
    from ... import api
    from ...api.checking import is_library_file
    from ..progress import spinner
    from ..tables import listing as tables

    refuse_options(words or [])
    if (seed and compile_for is None) or (sample is not None and compile_for is None and not memory):
        raise MisuseError("--seed is for --compile; --sample is for --compile and --check-memory")
    if memory:
        if not words or compile_for is not None or problems is not None or not is_library_file(words):
            raise MisuseError("--check-memory is for a library to check: name its file")
        with spinner() as progress:
            checked = api.check_memory(words[0], sample, progress)
        answer(checked.to_json()) if as_json else tables.memory(checked)
        raise typer.Exit(0 if checked.passed else 1)
    if words and compile_for is None and is_library_file(words):
        linted = api.lint_library(words[0], problems)
        answer(linted.to_json()) if as_json else tables.linted(linted)
        raise typer.Exit
    if problems is not None:
        raise MisuseError("--problems is for a library to check: name its file")
    if compile_for is not None:
        with spinner() as progress:
            report = api.compile_check(compile_for, words or (), SAMPLE if sample is None else sample, seed, progress,
                                       libraries)
        answer(report.to_json()) if as_json else tables.compiled(report)
        raise typer.Exit(0 if report.passed else 1)
    result, listed = api.kernels(*(words or ())), () if words else api.libraries()
    if as_json:
        answer({"kernels": [api.kernel_json(kernel) for kernel in result],
                **({"libraries": [library.to_json() for library in listed]} if listed else {})})
    else:
        tables.libraries(listed)
        tables.kernels(result)


@app.command(epilog="Example: seqtune doctor --json")
def doctor(journal: JournalPath = None, as_json: AsJson = False) -> None:
    """Say whether this machine measures well, and what to do. Exit code 1 if something is bad."""
    from ... import api
    from ..progress import spinner
    from ..tables import listing as tables

    with spinner() as progress:
        examination = api.doctor(journal, progress)
    answer(examination.to_json()) if as_json else tables.examination(examination)
    raise typer.Exit(0 if examination.passed else 1)
