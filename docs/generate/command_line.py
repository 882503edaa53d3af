"""The page of the command line, from the typer application itself."""

from __future__ import annotations

from typing import Any

import typer.main

from seqtune.cli import app

HEAD = """# Command line

{help} `seqtune --install-completion` sets up the shell.

Answers go to standard output, progress goes to standard error. Every command has `--help` and `--json` (one JSON
object). The exit code is 0 when the work is done, 1 when it failed, 130 when it was interrupted (Ctrl-C), and 2 when
the command line or an input is wrong; then one line on standard error says what to do. This page is generated from the
program.
"""


def page() -> str:
    """Markdown: a section per command with its arguments and options."""
    program: Any = typer.main.get_command(app)
    overview = ["| command | meaning |", "| :-- | :-- |"]
    sections = []
    for name, command in program.commands.items():
        overview.append(f"| [`seqtune {name}`](#seqtune-{name}) | {_cell(command.help)} |")
        sections.append(_section(name, command))
    return "\n".join([HEAD.format(help=program.help), *overview, "", *sections])


def _section(name: str, command: Any) -> str:
    context = typer.Context(command, info_name=f"seqtune {name}")
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
