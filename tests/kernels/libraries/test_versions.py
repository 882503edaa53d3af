"""Versions of declared kernels: what changes one, and what does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqtune.kernels.kernel import Kernel
from seqtune.kernels.libraries import code
from seqtune.kernels.libraries.digests import c_tokens, digest_of
from seqtune.kernels.libraries.files import read_regular
from seqtune.kernels.libraries.messages import message_of, of_message
from seqtune.kernels.libraries.reading import read_library
from seqtune.kernels.libraries.table import kernel_in_use, use
from seqtune.kernels.libraries.versions import KernelVersions, changes, is_todays
from seqtune.kernels.linting.library import lint
from tests.support.libraries.stencil import STENCIL, write

SECTION = '[kernels.tiled.{}]\nsource = "stencil.c"\nentry = "stencil"\nglobal = ["n"]\nlocal = [1]\n'
COMMAND = """name = "stale"
[operations.wait]
features = {n = "rounds"}
outputs = {y = "n"}
[kernels.k]
parameters = {variant = ["one", "two"], unroll = [1, 2]}
[kernels.k.command]
"""


def kernel(folder: Path, text: str) -> Kernel:
    (made,) = read_library(write(folder, text)).kernels.values()  # type: ignore[union-attr]
    assert isinstance(made, Kernel)
    return made


def same_text(text: str) -> str:
    return digest_of(c_tokens(text))


@pytest.mark.parametrize(("one", "other"), [
    ("a+b;", "a + b ; // sum"), ('/* " */ int y;', "int y;"), ("// it's a \" quote\nint x;", "int x;"),
    ('s = "//";', 's  =  "//" ;'), ("#define f(x) x\n", "# define f(x)   x // c\n"), ("va\\\nlue", "value"),
    ("#pragma unroll 4\nx", "#pragma  unroll   4\n\n\nx"), ("#if A\nx\n#endif", "  # if A // c\nx\n#  endif\n")])
def test_comments_and_insignificant_space_are_not_in_a_digest(one: str, other: str) -> None:
    assert same_text(one) == same_text(other)


@pytest.mark.parametrize(("one", "other"), [
    ("a+ +b", "a++b"), ('"a b"', '"a  b"'), ('"//a"', '"//b"'), ("#define f(x) x", "#define f (x) x"),
    ("#define A 1\nB", "#define A 1 B"), ("int a", "inta"), ("#define S(x) #x\nS(a+b)", "#define S(x) #x\nS(a + b)"),
    ("#include <a//b>\nx", "#include <a//c>\nx"), ("'\"' /* a */ b", "'\"' c"), ('R"(a\n b)"', 'R"(a\n  b)"'),
    ("#pragma unroll 4\nx", "#pragma unroll 8\nx")])
def test_what_a_compiler_reads_is_in_a_digest(one: str, other: str) -> None:
    assert same_text(one) != same_text(other)


@pytest.mark.parametrize("backend", ["opencl", "cuda"])
def test_a_header_of_a_header_is_in_the_version_and_a_comment_is_not(backend: str, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "stencil.c").write_text('#include "sub/a.h"\nvoid stencil() { A }\n')
    (tmp_path / "sub" / "a.h").write_text('#pragma once\n#include "b.h"\n#define A B\n')
    (tmp_path / "sub" / "b.h").write_text("#define B 1\n")
    text = STENCIL + SECTION.format(backend)
    first = kernel(tmp_path, text)
    (tmp_path / "sub" / "b.h").write_text("/* \" */\n#define  B 1 // one\n")
    (tmp_path / "stencil.c").write_text('#include "sub/a.h"  // c\n\n\nvoid stencil()\n{\n  A\n}\n')
    assert kernel(tmp_path, text).version == first.version
    assert kernel(tmp_path, text.replace("1e-4", "1e-3")).version == first.version
    (tmp_path / "sub" / "b.h").write_text("#define B 2\n")
    edited = kernel(tmp_path, text)
    assert edited.version != first.version
    assert changes(dict(first.parts), edited) == "sub/b.h has changed"
    assert not is_todays(edited, first.version, dict(first.parts))


def test_a_module_that_a_triton_kernel_imports_is_in_the_version(tmp_path: Path) -> None:
    (tmp_path / "product.py").write_text("from blocks import SIZE\n\nCODE = SIZE\n")
    (tmp_path / "blocks.py").write_text("SIZE = 16\n")
    text = COMMAND.replace("[kernels.k.command]\n", 'implementation = "product:CODE"\nbackends = ["triton"]\n')
    first = kernel(tmp_path, text)
    (tmp_path / "blocks.py").write_text("SIZE = 16  # a comment\n")
    assert kernel(tmp_path, text).version == first.version
    (tmp_path / "blocks.py").write_text("SIZE = 32\n")
    assert changes(dict(first.parts), kernel(tmp_path, text)) == "blocks.py has changed"
    assert kernel(tmp_path, text).version != first.version


def test_another_process_reads_the_same_version_from_the_text_of_a_library(tmp_path: Path) -> None:
    (tmp_path / "stencil.c").write_text('#include "a.h"\nvoid stencil() { A }\n')
    (tmp_path / "a.h").write_text("#define A 1\n")
    library = read_library(write(tmp_path, STENCIL + SECTION.format("opencl")))
    again = of_message(message_of(library)).kernel("stencil.tiled")
    assert again.parts == library.kernel("stencil.tiled").parts
    assert again.version == library.kernel("stencil.tiled").version


@pytest.mark.parametrize("edited", ["one.c", "two.c", "include/deep/w.h", "include/deep/v.h", "cfg_2/set.h"])
def test_files_that_a_build_reads_are_in_the_version_of_a_command(edited: str, tmp_path: Path) -> None:
    for folder in ("include/deep", "cfg_1", "cfg_2"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("one.c", "two.c"):
        (tmp_path / name).write_text('#include "deep/w.h"\n#include <set.h>\n#include <stdio.h>\nint main() {}\n')
    (tmp_path / "include/deep/w.h").write_text('#include "v.h"\n')
    for name in ("include/deep/v.h", "cfg_1/set.h", "cfg_2/set.h"):
        (tmp_path / name).write_text("#define A 1\n")
    text = COMMAND + ('build = ["cc", "-I", "include", "-Icfg_{unroll}", "-o", "{output}", "{variant}.c"]\n'
                      'run = ["{output}", "{n}"]\n')
    library = read_library(write(tmp_path, text))
    assert not any(library.unfollowed.values())
    first = kernel(tmp_path, text)
    path = tmp_path / edited
    path.write_text("// a comment\n" + path.read_text())
    assert kernel(tmp_path, text).version == first.version
    path.write_text(path.read_text() + "#define MORE 1\n")
    assert changes(dict(first.parts), kernel(tmp_path, text)) == f"{edited} has changed"
    assert kernel(tmp_path, text).version != first.version


@pytest.mark.parametrize(("run", "edited"), [
    ('["python3", "prog.py", "{n}"]', "helper.py"), ('["python3", "prog.py", "{n}"]', "prog.py"),
    ('["python3", "-m", "package", "{n}"]', "package/__main__.py"),
    ('["python3", "-m", "package", "{n}"]', "package/part.py"), ('["python3", "-c", "import helper"]', "helper.py")])
def test_modules_that_a_program_imports_are_in_the_version_of_a_command(run: str, edited: str, tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "__main__.py").write_text("from . import part\n")
    (tmp_path / "package" / "part.py").write_text("import sys\n")
    (tmp_path / "prog.py").write_text("import sys\nfrom helper import TIME\n")
    (tmp_path / "helper.py").write_text("TIME = 1\n")
    text = COMMAND + f"run = {run}\n"
    first = kernel(tmp_path, text)
    (tmp_path / edited).write_text((tmp_path / edited).read_text() + "MORE = 2\n")
    assert changes(dict(first.parts), kernel(tmp_path, text)) == f"{edited} has changed"


@pytest.mark.parametrize(("name", "line"), [("prog.py", "x = 1\n"), ("prog.c", "int x;\n")])
def test_a_file_that_is_too_large_to_follow_is_read_once_and_named(
        name: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / name).write_text(line * 100_000)
    read: list[str] = []

    def read_noted(path: Path, most: int) -> bytes:
        read.append(path.name)
        return read_regular(path, most)

    monkeypatch.setattr(code, "read_regular", read_noted)
    library = read_library(write(tmp_path, COMMAND + f'run = ["python3", "{name}", "{{n}}"]\n'))
    assert read == [name]
    ((_, message),) = library.unfollowed["stale.k"]
    assert message.startswith(f"{name} is too large to follow what it ")
    (tmp_path / name).write_text(line * 100_001)
    edited = read_library(tmp_path / "library.toml").kernel("stale.k")
    assert changes(dict(library.kernel("stale.k").parts), edited) == f"{name} has changed"


@pytest.mark.parametrize("edited", ["Makefile", "src/program.c", "src/part.h", "generate.py"])
def test_where_a_build_reads_unnamed_files_all_sources_of_the_folder_are_in_the_version(
        edited: str, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    for name in ("Makefile", "src/program.c", "src/part.h", "generate.py"):
        (tmp_path / name).write_text("A = 1\n")
    (tmp_path / "src" / "program.o").write_bytes(b"what a build left")
    text = COMMAND + 'build = ["make", "OUT={output}"]\nrun = ["{output}", "{n}"]\n'
    use(library := read_library(write(tmp_path, text)))
    assert any("which files make reads is not known" in message for _, message in lint(library).notes)
    first = kernel(tmp_path, text)
    (tmp_path / "src" / "program.o").write_bytes(b"of another build")
    assert kernel(tmp_path, text).version == first.version
    (tmp_path / edited).write_text("A = 2\n")
    assert changes(dict(first.parts), kernel(tmp_path, text)) == f"{edited} has changed"


def test_one_line_for_each_kernel_tells_of_records_of_earlier_versions(tmp_path: Path) -> None:
    library = read_library(write(tmp_path, STENCIL))
    use(library)
    today, own = library.kernel("stencil.tiled"), kernel_in_use("llvm.gemm")
    assert own is not None
    before = {**dict(today.parts), "derived": "another digest"}
    versions = KernelVersions({(today.name, 5): before, (today.name, 6): before})
    assert versions.notes({(today.name, today.version): 3, (own.name, own.version): 2, ("other.unknown", 9): 1}) == []
    declared, ours = versions.notes({(today.name, 5): 3, (today.name, 6): 1, (own.name, own.version + 1): 2})
    assert declared.startswith("4 records of stencil.tiled are of 2 earlier versions and do not count: derived has ")
    assert "`version = 6` under [kernels.tiled] in " in declared
    assert declared.endswith("library.toml keeps the 1 of the latest")
    assert ours == ("2 records of llvm.gemm are of an earlier version and do not count: its code has changed since, so "
                    "it must be measured again")
