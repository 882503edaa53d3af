"""Hostile files: a library's file from a stranger does no harm, and takes bounded time and memory."""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import seqtune
from seqtune.__main__ import main
from seqtune.errors import FormatError, KernelError
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from tests.support.command_line import Refused
from tests.support.libraries.stencil import write
from tests.support.synthetic import WIDE

SECONDS = 10.0  # of processor time; each takes less than two on a quiet machine, and tests run on slower ones
MEGABYTES = 1500
HEAD = """name = "hostile"
[operations.work]
features = {n = "size"}
[kernels.k]
backends = ["fake"]
"""
SWITCHES = ", ".join(f"p{number} = [0, 1]" for number in range(60))
NUMBERS = list(range(4400))
ZEROS = [f"p{number}" for number in range(150)]
SPACES = {
    "without constraints": f"parameters = {{{SWITCHES}}}",
    "with one constraint in the end": f"parameters = {{{SWITCHES}}}\nconstraints = ['p0 + p59 >= 0']",
    "with constraints that exclude nothing": f"parameters = {{{SWITCHES}}}\nconstraints = [" + ", ".join(
        f"'p{number} + p{number + 1} >= 0'" for number in range(59)) + "]",
    "with many levels": f"parameters = {{a = {NUMBERS}, b = {NUMBERS}, " + ", ".join(
        f"{name} = [0]" for name in ZEROS) + "}\nconstraints = [" + ", ".join(
        f"'{name} + a >= 0'" for name in ZEROS) + "]",
    "with many quantities": f"parameters = {{a = {NUMBERS}, b = {NUMBERS}, c = [1, 2]}}\nderived = {{" + ", ".join(
        f"d{number} = 'a * b + {number}'" for number in range(200)) + "}\nconstraints = ['d199 + c > 0']",
}
EXPRESSIONS = (
    "n ** n ** n ** n > 0", "2 ** (2 ** 62) > n", "n << 4611686018427387904 > 0", "'a' * 4611686018427387904 == n",
    "[n, n] * 4611686018427387904 == n", "lcm(n ** 60, 3 ** 40) ** 30 > 0", "(" * 900 + "n" + ")" * 900,
    "not " * 400 + "n", "n if n else " * 150 + "n", "1 / 0 > n", "n % 0 == 0", "'{:>999999999}' % n")


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """The test may take little processor time and little more memory than before."""
    began, peak = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert time.process_time() - began < SECONDS
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) / 1024 < MEGABYTES


@pytest.mark.parametrize("name", SPACES)
def test_a_huge_space_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, HEAD + SPACES[name])
    assert main(["kernels", str(path)]) == 0
    assert "too many to count" in capsys.readouterr().out
    family: Kernel = kernel("hostile.k")
    with pytest.raises(KernelError, match=r"partial configurations|takes too long"):
        SearchSpace(family, parse_problem("work n=4"), WIDE)


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=lambda expression: expression[:20])
def test_a_hostile_expression_is_refused_or_evaluated_quickly(
        expression: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for part in ("rules", "derived"):
        text = f'rules = {{"{expression}" = "no"}}' if part == "rules" else f'derived = {{d = "{expression}"}}'
        path = write(tmp_path, HEAD.replace("[kernels.k]", f"{text}\n[kernels.k]") + "parameters = {a = [1, 2]}\n")
        assert main(["kernels", str(path)]) in (0, 2)
        assert capsys.readouterr().err.count("\n") <= 1
    write(tmp_path, HEAD + f'parameters = {{a = [1, 2]}}\nconstraints = ["a + ({expression}) > 0"]\n')
    assert main(["kernels", str(path)]) in (0, 2)
    assert capsys.readouterr().err.count("\n") <= 1


def test_a_large_source_is_refused_before_it_is_read(tmp_path: Path, refused: Refused) -> None:
    with (tmp_path / "large.cl").open("wb") as file:
        file.truncate(1 << 30)
    path = write(tmp_path, HEAD.replace('backends = ["fake"]', "parameters = {a = [1]}") + (
        '[kernels.k.opencl]\nsource = "large.cl"\nentry = "k"\nglobal = ["n"]\n'))
    assert "library.toml:7:10: " in refused("kernels", path)
    with path.open("r+b") as file:
        file.truncate(1 << 30)
    assert "1073741824 bytes" in refused("kernels", path)


def test_many_large_sources_and_programs_are_read_in_bounded_time(
        tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqtune.kernels.libraries.code.LARGEST_PROGRAMS", 10_000_000)  # a hundredth, as of the files
    head = HEAD.partition("[kernels")[0]
    (tmp_path / "k.cl").write_text(" " * 990_000)
    sources = "".join(f"[kernels.k{number}]\nparameters = {{a = [1]}}\n[kernels.k{number}.opencl]\n"
                      'source = "k.cl"\nentry = "k"\nglobal = ["n"]\n' for number in range(100))
    assert "more than 10000000 characters" in refused("kernels", write(tmp_path, head + sources))
    for number in range(30):
        with (tmp_path / f"data{number}").open("wb") as file:
            file.truncate(1_000_000)
    words = ", ".join(f'"data{number}"' for number in range(30))
    programs = "".join(f"[kernels.k{number}]\nparameters = {{a = [1]}}\n[kernels.k{number}.command]\n"
                       f'run = ["cat", {words}]\n' for number in range(50))
    assert "bytes; at most 0 are read" in refused("kernels", write(tmp_path, head + programs))


@pytest.mark.parametrize("line", [
    '#include "{}"', "#include <{}>", '#/**/include "{}"', '/* */ #include "{}"', '%:include "{}"', '#inc\\\nlude "{}"',
    '#define FILE "{}"\n#include FILE', '??=include "{}"', '#include_next "{}"', '#include <../{}>',
    '//\r#include "{}"'])
@pytest.mark.parametrize("form", ["source", "text"])
def test_no_source_includes_a_file_from_elsewhere(line: str, form: str, tmp_path: Path, refused: Refused) -> None:
    secret = tmp_path / "secret.h"
    secret.write_text("private")
    home = tmp_path / "home"
    home.mkdir()
    source = line.format(secret) + "\nkernel void k() {}\n"
    (home / "k.cl").write_bytes(source.encode())
    value = '"k.cl"' if form == "source" else json.dumps(source)
    error = refused("kernels", write(home, HEAD.replace('backends = ["fake"]', "parameters = {a = [1]}") + (
        f'[kernels.k.opencl]\n{form} = {value}\nentry = "k"\nglobal = ["n"]\n')))
    assert "library.toml:7:" in error
    assert "private" not in error


def test_devices_pipes_and_folders_are_no_libraries(tmp_path: Path, refused: Refused) -> None:
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    assert "is not a regular file" in refused("kernels", pipe)
    (tmp_path / "zero.toml").symlink_to("/dev/urandom")
    assert "is not a regular file" in refused("kernels", tmp_path / "zero.toml")
    (tmp_path / "loop.toml").symlink_to("loop.toml")
    assert "cannot read" in refused("kernels", tmp_path / "loop.toml")
    for name in ("/dev/urandom", str(pipe), str(tmp_path), "a\0b.toml", "x" * 5000 + ".toml"):
        refused("devices", "--library", name)


def test_a_pipe_among_the_files_of_a_library_is_refused(tmp_path: Path, refused: Refused) -> None:
    os.mkfifo(tmp_path / "k.cl")
    os.mkfifo(tmp_path / "code.py")
    head = HEAD.replace('backends = ["fake"]', "parameters = {a = [1]}")
    assert "not a regular file" in refused("kernels", write(
        tmp_path, head + '[kernels.k.opencl]\nsource = "k.cl"\nentry = "k"\nglobal = ["n"]\n'))
    assert "not a regular file" in refused("kernels", write(
        tmp_path, HEAD + 'parameters = {a = [1]}\nimplementation = "code:OBJECT"\n'))


@pytest.mark.parametrize("text", [
    "a = " + "[" * 50_000, "a = " + "{b = " * 20_000, "[" + ".".join("a" * 100_000) + "]",
    "\n".join("[" + ".".join("a" * 90) + f".b{number}]" for number in range(100)), "a = " + "9" * 100_000,
    "a" * 200_000 + " = 1", 'a = "' + "\\n" * 100_000 + '"', "\n" * 200_000, "name = 'x'\n" + "[a]\n" * 2,
    'a = "\x01"', "\ufeffname = 1", "".join(f"k{number} = {number}\n" for number in range(20_000)),
], ids=["arrays", "tables", "dots", "many dots", "digits", "key", "text", "lines", "twice", "control", "mark", "keys"])
def test_hostile_toml_is_refused(text: str, tmp_path: Path, refused: Refused) -> None:
    error = refused("kernels", write(tmp_path, text))
    assert len(error) < 1000 + len(str(tmp_path))


def test_many_kernels_are_checked_in_bounded_time(tmp_path: Path) -> None:
    kernels = "".join(f"[kernels.k{number}]\nbackends = ['fake']\nparameters = {{{SWITCHES}}}\n"
                      for number in range(100))
    assert main(["kernels", str(write(tmp_path, HEAD.partition("[kernels")[0] + kernels))]) == 0


def test_what_a_stranger_names_is_neither_imported_nor_run(tmp_path: Path) -> None:
    marker = tmp_path / "it_ran"
    (tmp_path / "code.py").write_text(f"open({str(marker)!r}, 'w')\n")
    (tmp_path / "program").write_text(f"#!/bin/sh\ntouch {marker}\n")
    (tmp_path / "program").chmod(0o755)
    path = write(tmp_path, """name = "hostile"
[operations.work]
features = {n = "size"}
outputs = {y = "n"}
reference = "code:run"
[kernels.k]
parameters = {a = [1, 2]}
[kernels.k.command]
run = ["./program", "{n}"]
build = ["./program", "{output}"]
""")
    for words in (["kernels"], ["kernels", "hostile.k"], ["kernels", "--json"],
                  ["tune", "work", "n=4", "--device", "command:cpu", "--trials", "2",
                   "--journal", str(tmp_path / "journal.sqlite")]):
        main([*words, "--library", str(path)])
        assert not marker.exists(), words
    with pytest.raises(FormatError, match="bytes"):
        seqtune.use_library(write(tmp_path, " " * 300_000))
