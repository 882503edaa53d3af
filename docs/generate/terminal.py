"""The picture of a terminal: a command is run, and what it printed is drawn as SVG.

`python -m docs.generate.terminal` runs `COMMAND` on this machine and writes `docs/terminal.svg`, which README.md and
the first page show. The answer is measured, as it is in a new installation: the journal is an empty one.
"""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "terminal.svg"
COMMAND = shlex.split("seqtune predict conv2d c=64 h=56 w=56 k=64 r=3 s=3 pad=1 --device llvm:0 --top 3 --verify")
COLUMNS = 120  # letters of 12 pixels: about what a page of 800 to 1,000 pixels shows legibly
SECONDS = 300  # the longest run: the command itself takes at most half a minute
LABEL = "A terminal with the command and what it printed"
FRAME = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="LABEL">
<style>
.{unique_id}-matrix {{ font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: {char_height}px;
  line-height: {line_height}px; }}
.{unique_id}-title {{ font-family: sans-serif; font-size: 18px; font-weight: bold; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
""".replace("LABEL", LABEL)  # rich's own frame would load fonts from the network


def printed(command: Sequence[str], columns: int = COLUMNS) -> str:
    """Run a `seqtune` command on a terminal with so many columns, and return its output with its escape sequences.

    Progress is left out. Raises CalledProcessError or TimeoutExpired, with what was printed as progress.
    """
    program, *arguments = command
    with tempfile.TemporaryDirectory(prefix="seqtune-terminal-") as folder:
        variables = {"COLUMNS": f"{columns}", "FORCE_COLOR": "1", "TERM": "xterm-256color", "XDG_DATA_HOME": folder}
        environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | variables
        done = subprocess.run([sys.executable, "-m", program, *arguments], cwd=ROOT, env=environment,
                              capture_output=True, text=True, check=True, timeout=SECONDS)
    return done.stdout


def picture(command: Sequence[str], output: str, columns: int = COLUMNS) -> str:
    """SVG text of a terminal: the command after a prompt, and its output with colours."""
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="truecolor",
                      legacy_windows=False)
    lines = "\n".join(line.rstrip() for line in output.strip("\n").splitlines())
    console.print(Text.assemble(("$ ", "bold green"), (shlex.join(command), "bold")), soft_wrap=True)
    console.print(Text.from_ansi(lines), soft_wrap=True)
    return console.export_svg(title="seqtune", code_format=FRAME, unique_id="terminal")


def main() -> None:
    """Run the command and write the picture."""
    PICTURE.write_text(picture(COMMAND, printed(COMMAND)))
    print(PICTURE.relative_to(ROOT))


if __name__ == "__main__":
    main()
