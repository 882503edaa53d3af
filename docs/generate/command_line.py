"""The page of the command line, from the typer application itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer.main

from seqtune.cli import app

HEAD = """# Command line

{help} This page is generated from the program.

Answers go to standard output, progress goes to standard error. Every command has `--help` and `--json` (one JSON
object, [its fields](json.md)).

{codes}

{variables}

## Completion

`seqtune --install-completion` lets bash, zsh or fish complete commands and options by the Tab key, from the next shell
on. `seqtune --show-completion` prints the lines instead, for the shell that it is called from. These print the lines
of any shell:

```text
_SEQTUNE_COMPLETE=source_bash seqtune
_SEQTUNE_COMPLETE=source_zsh seqtune
_SEQTUNE_COMPLETE=source_fish seqtune
```

## Commands
"""
EXIT_CODES = (  # code, meaning, examples
    ("0", "done", ""),
    ("1", "failed: what was asked for is right, and could not be done, or not for all",
     "no kernel solves one of the problems; `doctor` found something bad; the disk is full"),
    ("2", "misused: the command line or an input is wrong; one line on standard error says what to do, and nothing is "
          "written", "an unknown option, a damaged file, a missing device or package"),
    ("130", "interrupted by Ctrl-C or, in a long job, by SIGTERM; what was measured or learned is kept", ""),
)
VARIABLES = (
    ("`NO_COLOR`", "set to anything: no colours"),
    ("`COLUMNS`", "width of tables; by default that of the terminal, or 200 in a file or a pipe. Text breaks between "
                  "words. A table that does not fit names columns with one value in all rows above it, breaks headers "
                  "and file names, and only then becomes lines"),
    ("`XDG_DATA_HOME`, `XDG_CACHE_HOME`", "where the journal and trained checkpoints, and caches lie (Linux). Without "
     "them and without a home, nothing is cached and `--journal` is needed to keep measurements"),
)


def page() -> str:
    """Markdown: a section per command with its arguments and options."""
    program: Any = typer.main.get_command(app)
    overview = ["| command | meaning |", "| :-- | :-- |"]
    sections = []
    head = HEAD.format(help=program.help, codes=_table(("exit code", "meaning", "for example"), *EXIT_CODES),
                       variables=_table(("variable", "meaning"), *VARIABLES))
    for name, command in program.commands.items():
        overview.append(f"| [`seqtune {name}`](#seqtune-{name}) | {_cell(command.help)} |")
        sections.append(_section(name, command))
    return "\n".join([head, *overview, "", *sections])


def _table(names: Sequence[str], *rows: Sequence[str]) -> str:
    """A table of Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (names, [":--"] * len(names), *rows))


def _section(name: str, command: Any) -> str:
    context = typer.Context(command, info_name=f"seqtune {name}", terminal_width=80)
    usage = command.get_usage(context).removeprefix("Usage: ").strip()
    rows = []
    for parameter in command.params:
        if parameter.name == "help":
            continue
        first, meaning = parameter.get_help_record(context) or (parameter.human_readable_name, parameter.help or "")
        rows.append(f"| `{_cell(first)}` | {_cell(meaning)} |")
    rows.append("| `--help` | Show this help and exit. |")
    lines = [f"## seqtune {name}", "", command.help or "", "", "```text", usage, "```", "",
             "| argument or option | meaning |", "| :-- | :-- |", *rows, ""]
    if command.epilog:
        examples = command.epilog.removeprefix("Example: ").split("; ")
        lines += ["```bash", *(example.strip() for example in examples), "```", ""]
    return "\n".join(lines)


def _cell(text: str | None) -> str:
    """One line fit for a cell of a Markdown table."""
    return " ".join((text or "").split()).replace("|", "\\|").replace("<", "&lt;").replace("[", "\\[")
