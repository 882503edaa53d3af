"""The commands that exchange data with other tools: import, export, export-c and serve-files.

export and serve-files have the options that a format of the table declares (FormatCommand).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand

from seqtune.data.formats.options import FormatOption, Kind, unknown_option
from seqtune.data.formats.table import FORMATS, HOLD_OUT, FormatEntry, described, entry_of, names

from ...errors import MisuseError
from ..application import AsJson, Force, answer, app
from ..arguments import numbers, parts

_TYPES: Mapping[Kind, Any] = {  # of the command line's values
    Kind.TEXT: str | None, Kind.PATH: Path | None, Kind.NUMBER: int, Kind.SHARE: float | None,
    Kind.NUMBERS: str | None, Kind.NAMES: list[str] | None, Kind.PROBLEM: str | None, Kind.JOURNAL: Path | None}
_ENTRY = "seqtune.format"  # the key of the chosen format's entry in a context


class FormatCommand(TyperCommand):
    """A command whose parameter `form` names a format: the options of other formats are unknown to it.

    Its help shows all options until the words name a format.
    """

    ability: ClassVar[str]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Choose the format, then parse its options. Raises MisuseError for an option that it does not have."""
        parser = self.make_parser(ctx)
        parser.ignore_unknown_options = True
        given, rest, _ = parser.parse_args(args=list(args))
        form = given.get("form")
        if not isinstance(form, str) and not given.get("help"):
            form = next(parameter.default for parameter in self.params if parameter.name == "form")
        if isinstance(form, str) and not form.startswith("-"):
            entry = entry_of(form, self.ability)
            own = {option.name for option in entry.options}
            others = [option.flag for name, option in declared(self.ability).items() if name in given.keys() - own]
            unknown = [*others, *(word.partition("=")[0] for word in rest if word.startswith("-"))]
            if unknown:
                raise MisuseError(unknown_option(form, unknown[0], entry.options))
            ctx.meta[_ENTRY] = entry
        return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters that the chosen format has; all of them before one is chosen."""
        entry: FormatEntry | None = ctx.meta.get(_ENTRY)
        if entry is None:
            return super().get_params(ctx)
        others = declared(self.ability).keys() - {option.name for option in entry.options}
        return [parameter for parameter in super().get_params(ctx) if parameter.name not in others]


class ExportCommand(FormatCommand):
    """The command that writes records and configurations."""

    ability = "write"


class ServeCommand(FormatCommand):
    """The command that writes files for servers."""

    ability = "serve"


def declared(ability: str) -> dict[str, FormatOption]:
    """The options of all formats with an ability, by name; the help names the formats where it is not the same for all.
    """
    helps: dict[str, dict[str, list[str]]] = {}  # option -> help -> formats
    options: dict[str, FormatOption] = {}
    for form in names(ability):
        for option in FORMATS[form].options:
            options.setdefault(option.name, option)
            helps.setdefault(option.name, {}).setdefault(option.help, []).append(form)
    return {name: replace(option, help=_help(helps[name], len(names(ability)))) for name, option in options.items()}


def _help(helps: Mapping[str, list[str]], formats: int) -> str:
    """One help text for an option of `formats` formats, from its texts and the formats that each is for."""
    return " ".join(text if len(forms) == formats else f"{', '.join(forms)}: {text}" for text, forms in helps.items())


def with_options(ability: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator: the command gets the options that formats with the ability declare in place of its `**options`.

    The command receives the values of the format that its parameter `form` names.
    """
    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**given: Any) -> None:
            entry = entry_of(given["form"], ability)
            own = {option.name: _read(option, given[option.name]) for option in entry.options}
            command(**{name: given[name] for name in given.keys() - declared(ability).keys()}, **own)

        parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
                      for parameter in inspect.signature(command, eval_str=True).parameters.values()
                      if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [*parameters, *map(_parameter, declared(ability).values())])
        return run

    return decorated


def _parameter(option: FormatOption) -> inspect.Parameter:
    """The option as a parameter of a command."""
    default = typer.Option(option.default, option.flag, metavar=option.metavar, help=option.help,
                           show_default=option.default is not None)
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=_TYPES[option.kind])


def _read(option: FormatOption, value: Any) -> Any:
    """The value of the command line as `seqtune.api` takes it. Raises MisuseError for what is no list of numbers."""
    if option.kind is Kind.NUMBERS and value is not None:
        return sorted(set(numbers(option.flag, value)))
    return value


@app.command("import", epilog="Example: seqtune import miopen gfx906_60.db.bz2 --out labels.parquet")
def import_(
    source: Annotated[str, typer.Argument(
        metavar="FORMAT", help=f"The files' format. {described('read')}.")],
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files, or folders of them.")],
    out: Annotated[Path, typer.Option("--out", help="The Parquet file.")],
    device: Annotated[list[str] | None, typer.Option(
        "--device", metavar="'DEVICE [FACT=VALUE...]'", show_default=False,
        help="The device, where the files do not name it; MIOpen's GPUs also with facts: "
             "'gfx1201_32 compute_units=64'.")] = None,
    keys: Annotated[str | None, typer.Option(
        "--keys", metavar="NAME,...", show_default=False,
        help="For triton: the names of the autotuner's key arguments, in order. For kernel-tuner: parameters with one "
             "value, or entries of the caches, that are features of the problem.")] = None,
    hold_out: Annotated[list[str] | None, typer.Option(
        HOLD_OUT.flag, metavar=HOLD_OUT.metavar, show_default=False, help=HOLD_OUT.help)] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Read tuning data of other tools into a data set (Parquet)."""
    from ... import api
    from ..progress import note
    from ..tables import learning as tables

    report = api.import_data(source, paths, out, devices=device or (), keys=parts(keys),
                             hold_out=hold_out or (), force=force, note=note).to_json()
    answer(report) if as_json else tables.imported(report)


@app.command(cls=ExportCommand, epilog="Example: seqtune export --out records.parquet")
@with_options("write")
def export(
    out: Annotated[Path, typer.Option("--out", help="The file to write, or the folder for a format of folders.")],
    form: Annotated[str, typer.Option("--format", metavar="FORMAT", help=f"{described('write')}.")] = "parquet",
    force: Force = False,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Write records as a data set (Parquet), or records and configurations in the files of other tools."""
    from ... import api
    from ..tables import console

    report = api.export(out, form, force=force, **options).to_json()
    answer(report) if as_json else console.fields(report)


@app.command("export-c", epilog="Example: seqtune export-c --library llvm --out predictor.c")
def export_c(
    out: Annotated[Path, typer.Option("--out", help="The C file to write; its header is written beside it.")],
    checkpoint: Annotated[str | None, typer.Option(
        "--checkpoint", metavar="FOLDER_OR_NAME", show_default=False,
        help="What is written, with the kernels of --library alone.  [default: the library's, or the shipped one]",
    )] = None,
    data: Annotated[Path | None, typer.Option(
        "--data", show_default=False,
        help="A data set with held-out problems, on which the code is compared with Python.  [default: shipped]",
    )] = None,
    prefix: Annotated[str | None, typer.Option(
        "--prefix", metavar="NAME", show_default=False,
        help="What the public names begin with, so that one program can link several files.  [default: seqtune]",
    )] = None,
    force: Force = False,
    as_json: AsJson = False,
    libraries: tuple[str, ...] = (),
) -> None:
    """Write a trained predictor as one C99 file with its header."""
    from ... import api
    from ..tables import console

    report = api.export_c(out, checkpoint=checkpoint, libraries=libraries, data=data, prefix=prefix,
                          force=force).to_json()
    answer(report) if as_json else console.fields(report)


@app.command("serve-files", cls=ServeCommand, epilog=(
    "Example: seqtune serve-files vllm --model-config config.json --device h200 --tp 8 --out tuned"))
@with_options("serve")
def serve_files(
    form: Annotated[str, typer.Argument(metavar="SERVER", help=f"Who reads the files. {described('serve')}.")],
    out: Annotated[str, typer.Option("--out", metavar="FOLDER", help="The folder to write into.")],
    force: Force = False,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Write tuned settings as the files that a server of language models reads."""
    from ... import api
    from ..tables import console

    report = api.serve_files(out, form, force=force, **options).to_json()
    answer(report) if as_json else console.fields(report)
