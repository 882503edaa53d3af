"""Snippets of README and site: found in fenced blocks, made short, and run in the current folder."""

from __future__ import annotations

import bz2
import contextlib
import importlib.util
import io
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import typer.main

from seqtune.__main__ import main
from seqtune.cli import app
from seqtune.data.dataset import Dataset
from seqtune.kernels.problem_sets.networks import NETWORKS
from tests.support.miopen_files import LABELS, NEW_FIND, perf_db
from tests.support.recorded_files import write_cache, write_recorded

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FRONT_PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
COMPILED = ("cc", "./call")  # the C compiler, and what a tutorial makes of its file
FOREIGN = ("cp", "kubectl", "mkdir", "ray", "scp", "sh")  # what no test runs, except by `shown by`
SHELL = ("bash", "console", "sh")
_BLOCK = re.compile(r"(?:<!-- shown by: (?P<shown>[^ ]+) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
_FILE = re.compile(r"<!-- file: (?P<name>[\w.-]+) -->\n```\w+\n(?P<text>.*?)^```$", re.M | re.S)
_SHIPPED = 6  # problems of the shipped data set that stand for its held-out ones, and for the others
_PROBLEMS = 5  # rows of a page's CSV, the fewest that can be learned from
_FEW = "gemm m=16 n=64 k=64\nconv2d c=16 size=14 k=16 filter=3 pad=1\n"  # stands for whole networks
_HELD_OUT = "gemm m=64 n=512 k=256\n"
_SENTENCE = 9  # words; shorter sentences may stand on several pages
_LIMITS = {"--trials": 3, "--seconds": 0.3, "--top": 3, "--sample": 1}
_VERIFICATION = "60"  # seconds, which no busy machine exceeds: the fixture `few_rounds` keeps it short
_CODE = {"verify=True)": f"verify=True, seconds={_VERIFICATION})", "seconds=5": f"seconds={_VERIFICATION}",
         "trials=20": "trials=3"}


@dataclass(frozen=True)
class Snippet:
    """A fenced block; `shown_by` names the test or benchmark that runs it where it takes too long or needs files."""

    language: str
    text: str
    shown_by: str | None


def pages() -> list[str]:
    """Every page by its path in the repository."""
    return [*FRONT_PAGES, *(path.relative_to(ROOT).as_posix() for path in sorted(DOCS.rglob("*.md")))]


def text_of(page: str) -> str:
    """The Markdown of a page."""
    return (ROOT / page).read_text()


def snippets(page: str) -> list[Snippet]:
    """Shell and Python blocks of a page, in order."""
    return [Snippet(found["language"], found["text"], found["shown"]) for found in _BLOCK.finditer(text_of(page))
            if found["language"] in (*SHELL, "python")]


def commands(snippet: Snippet) -> Iterator[list[str]]:
    """Command lines of a shell block as words, without comments; of a transcript only what follows a prompt."""
    lines = snippet.text.replace("\\\n", " ").splitlines()
    if snippet.language == "console":
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    for line in lines:
        words = shlex.split(line, comments=True)
        if words:
            yield words


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page that have at least nine words, without code, tables and the targets of links."""
    prose = re.sub(r"^```.*?^```$|<!--.*?-->|^\|.*?$|(?<=\])\([^)]*\)", "", text, flags=re.M | re.S)
    for paragraph in re.split(r"\n\s*\n|\n(?=- |\d+\. )", prose):
        for sentence in re.split(r"(?<=[.:;!?])\s+", " ".join(paragraph.split())):
            if len(sentence.split()) >= _SENTENCE:
                yield sentence


def write_inputs(page: str) -> None:
    """Small files with the names that the pages use, in the current folder."""
    folder = Path.cwd()
    (folder / "few.txt").write_text(_FEW)
    (folder / "held-out.txt").write_text(_HELD_OUT)
    if any(re.search("replay shipped|seqtune export-c", snippet.text) for snippet in snippets(page)):
        few_shipped().write(folder / "few.parquet")
    write_recorded(folder / "recorded")
    (folder / "cachefiles").mkdir()
    for device in ("fast", "odd"):
        write_cache(folder / "cachefiles" / f"{device}.json", device)
    for name in ("gfx906_60.db.bz2", "other.db.bz2"):
        perf_db(folder / name, LABELS)
    (folder / "gfx906_60.HIP.fdb.txt.bz2").write_bytes(bz2.compress(NEW_FIND.encode()))


def write_files(page: str) -> None:
    """Write the files that a page shows in full into the current folder; of a CSV only the first rows."""
    for shown in _FILE.finditer(text_of(page)):
        lines = shown["text"].splitlines()
        if shown["name"].endswith(".csv"):
            lines = lines[:1 + _PROBLEMS]
        Path(shown["name"]).write_text("\n".join(lines) + "\n")


def run_command(words: Sequence[str]) -> None:
    """Run a `seqtune` command with a short budget, or what a page compiles; check that what others name exists."""
    target = None
    if ">" in words:
        place = words.index(">")
        words, target = words[:place], Path(words[place + 1])
    program, *arguments = words
    if program == "seqtune":
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            code = main(shortened(arguments))
        assert code == 0, shlex.join(words)
        if target is not None:
            target.write_text(output.getvalue())
    elif program in COMPILED:
        if shutil.which("cc") is not None:
            quick = ["-O0" if word == "-O2" else word for word in words]
            subprocess.run(quick, check=True, capture_output=True, timeout=600)
    elif program == "printf":
        assert target is not None
        target.write_text(subprocess.run(["printf", *arguments], capture_output=True, text=True, check=True).stdout)
    else:
        check_command(words)


def check_command(words: Sequence[str]) -> None:
    """Whether a command that is not run could be: its options, its make target, its module or its extras exist."""
    program, *arguments = words[:words.index(">")] if ">" in words else words
    while "=" in program or program == "taskset":  # a variable of the environment, or a choice of cores
        program, *arguments = arguments[2:] if program == "taskset" else arguments
    if program == "seqtune":
        parse(arguments)
    elif program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
        assert arguments[0] in targets
    elif program in ("python", "python3"):
        assert arguments[0] == "-m"
        assert importlib.util.find_spec(arguments[1]) is not None, arguments[1]
    elif program == "pip":
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        assert set(re.findall(r"\[(\w+)\]", " ".join(arguments))) <= set(extras)
    elif program in FOREIGN:
        if "seqtune" in arguments:
            parse(arguments[arguments.index("seqtune") + 1:])
    else:
        assert program in ("printf", "cd", "git", "export", *COMPILED), program


def parse(arguments: Sequence[str]) -> None:
    """Parse a command line without running it; fails where a command or an option does not exist."""
    name, *rest = arguments
    program: Any = typer.main.get_command(app)
    program.commands[name].make_context(name, list(rest), resilient_parsing=False)


def shortened(arguments: Sequence[str]) -> list[str]:
    """The same command with a small budget, and few problems in place of a network."""
    words = list(arguments)
    for place, option in enumerate(words[:-1]):
        value = words[place + 1]
        if option in _LIMITS:
            words[place + 1] = str(min(_LIMITS[option], type(_LIMITS[option])(float(value))))
        elif option in ("--problems", "--hold-out") and value.partition(":")[0] in NETWORKS:
            words[place + 1] = "few.txt" if option == "--problems" else "held-out.txt"
    if "--verify" in words:
        words += ["--seconds", _VERIFICATION, *([] if "--top" in words else ["--top", str(_LIMITS["--top"])])]
    if words[0] == "tune" and not {"--trials", "--seconds"} & set(words):
        words += ["--trials", "3"]
    if words[0] in ("train", "retrain") and "--epochs" not in words:
        words += ["--epochs", "1"]
    if words[0] == "train":
        words += ["--force"]  # on a busy machine a handful of short times may be mere noise
    if words[0] == "replay":
        words = ["few.parquet" if word == "shipped" else word for word in [*words, "--repeats", "2", "--jobs", "1"]]
    if words[0] == "export-c":
        words += ["--data", "few.parquet"]  # the shipped data take seconds
    return words


@lru_cache(maxsize=1)
def few_shipped() -> Dataset:
    """Some problems of the shipped data set, held-out ones and others."""
    data = Dataset.shipped()
    keys = sorted(set(data.rows["problem"].unique()))
    held_out = [key for key in keys if key in data.held_out][:_SHIPPED]
    others = [key for key in keys if key not in data.held_out][:_SHIPPED]
    return replace(data, rows=data.rows[data.rows["problem"].isin([*held_out, *others])])


def run_code(text: str, names: dict[str, object]) -> None:
    """Run a Python block with short budgets in the names of its page."""
    for long, short in _CODE.items():
        text = text.replace(long, short)
    exec(compile(text, "<snippet>", "exec"), names)
