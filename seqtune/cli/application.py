"""The command-line application and the options that several commands share."""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import MisuseError

Libraries = Annotated[list[str] | None, typer.Option(
    "--library", metavar="FILE_OR_NAME", show_default=False,
    help="A library of kernels: a TOML or T1 file, or the name of one (see `seqtune kernels`). May be repeated.")]
AllowCommands = Annotated[bool, typer.Option(
    "--allow-commands", help="Let the Python code and the commands that a library's file names run.")]


def with_libraries(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options --library and --allow-commands: it runs when the libraries are in use.

    A parameter `libraries` of the command receives their names.
    """
    signature = inspect.signature(command, eval_str=True)

    @functools.wraps(command)
    def run(*, library: list[str] | None, allow_commands: bool, **given: Any) -> None:
        names: list[str] = []
        if library:
            from ..api.library import use_library

            names = [use_library(name, allow_commands=allow_commands).name for name in library]
        elif allow_commands:
            raise MisuseError("--allow-commands is for a library that --library names")
        command(**given, **({"libraries": tuple(names)} if takes_names else {}))

    takes_names = "libraries" in signature.parameters
    more = {"library": (Libraries, None), "allow_commands": (AllowCommands, False)}
    parameters = [*(parameter for name, parameter in signature.parameters.items() if name != "libraries"), *(
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in more.items())]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


class _Application(typer.Typer):
    """An application whose commands all take libraries."""

    def command(  # type: ignore[override]  # one signature for all of typer's arguments
            self, *arguments: Any, **named: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """A decorator that registers a command."""
        register = super().command(*arguments, **named)

        def add(command: Callable[..., Any]) -> Callable[..., Any]:
            register(with_libraries(command))
            return command

        return add


app = _Application(
    name="seqtune", rich_markup_mode=None, pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    help="Predicts the tuning parameters of compute kernels, and proves them by measuring.",
    epilog="Example: seqtune predict conv2d n=1 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 --device llvm:0 --verify")

# The words of a problem may be a MIOpenDriver command line with options of its own, so unknown options are words, too.
PROBLEM_WORDS = {"ignore_unknown_options": True}

Words = Annotated[list[str] | None, typer.Argument(
    metavar="PROBLEM...", show_default=False,
    help="conv2d c=64 h=56 ...; gemm m=.. n=.. k=..; a MIOpenDriver line; or a quoted JSON object: "
         '{"type": "conv2d", "c": 64, "h": 56, "k": 64, "r": 3, "pad": 1}.')]
DeviceName = Annotated[str, typer.Option("--device", help="Device that will run the kernel (see `seqtune devices`).")]
AsJson = Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")]
Checkpoint = Annotated[str | None, typer.Option(
    "--checkpoint", metavar="FOLDER_OR_NAME", show_default=False,
    help="A trained checkpoint, the JSON file of a dispatch, or `analytic`.  [default: the shipped one for the device "
         "or the data]")]
Trained = Annotated[str | None, typer.Option(
    "--checkpoint", metavar="FOLDER_OR_NAME", show_default=False,
    help="A trained checkpoint.  [default: the shipped one for the device or the data]")]
JournalPath = Annotated[Path | None, typer.Option(
    "--journal", help="The journal file.  [default: in the user's data folder]", show_default=False)]
Epochs = Annotated[int | None, typer.Option("--epochs", min=1, help="Maximum number of epochs.", show_default=False)]
Extra = Annotated[int | None, typer.Option(
    "--extra", min=0, help="Number of further problems to learn from, labelled by boosted trees.", show_default=False)]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Seed of all random choices.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output.")]


def _version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        print(f"seqtune {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[bool, typer.Option(
        "--version", callback=_version, is_eager=True, help="Show the version and exit.")] = False,
) -> None:
    pass


def answer(result: Any) -> None:
    """Print a result as one line of JSON."""
    json.dump(result, sys.stdout, allow_nan=False)
    print()
