"""Libraries that a TOML file declares: their problems, spaces, versions and messages to other processes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from seqtune.errors import FormatError, KernelError, MisuseError, ProblemError
from seqtune.kernels.libraries.declared_library import declared_library, parse_document
from seqtune.kernels.libraries.document import KernelDocument, LibraryDocument
from seqtune.kernels.libraries.files import source_text
from seqtune.kernels.libraries.messages import message_of, messages_in_use, of_message, use_messages
from seqtune.kernels.libraries.reading import read_library
from seqtune.kernels.libraries.table import use
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem, read_problems
from seqtune.kernels.problem_sets.sampler import sample_problems
from seqtune.kernels.problem_sets.similarity import near
from seqtune.kernels.registry import check_allowed, is_registered, kernel, kernels_for, names, table
from seqtune.kernels.space import SearchSpace
from tests.support.libraries.stencil import STENCIL, write
from tests.support.synthetic import WIDE


def test_a_library_in_use_adds_its_operation_and_its_kernels_everywhere(tmp_path: Path) -> None:
    assert not is_registered("stencil.tiled")
    with pytest.raises(KernelError, match="name its library with --library"):
        kernel("stencil.tiled")
    with pytest.raises(ProblemError, match="name its library with --library"):
        Problem.make("stencil", n=64)
    use(read_library(write(tmp_path)))
    problem = parse_problem("stencil n=64")
    assert problem == Problem.make("stencil", n=64) == parse_problem(problem.key)
    assert problem.size("flop") == 6 * 64 * 64
    with pytest.raises(ProblemError, match="n must be even"):
        parse_problem("stencil n=63")
    assert near(problem, parse_problem("stencil n=72"))
    assert not near(problem, parse_problem("stencil n=96"))
    assert "stencil.tiled" in names()
    assert table("fake") == ("stencil.tiled",)
    (family,) = kernels_for(problem, WIDE)
    space = SearchSpace(family, problem, WIDE)
    assert len(space) == 2 * (3 + 3 + 2)
    assert space.default.settings == (("block_x", 32), ("block_y", 1), ("unroll", 1))
    assert kernels_for(parse_problem("stencil n=8"), WIDE) == ()


def test_problems_of_a_library_are_read_from_csv_and_drawn(tmp_path: Path) -> None:
    use(read_library(write(tmp_path)))
    (tmp_path / "problems.csv").write_text("type,n,steps\nstencil,64,\nstencil,32,4\n")
    assert [problem.key for problem in read_problems(tmp_path / "problems.csv")] == [
        "stencil n=64", "stencil n=32 steps=4"]
    drawn = sample_problems("stencil", 20, seed=0)
    assert len(set(drawn)) == 20
    assert all(problem.size("n") % 2 == 0 and 1 <= problem.size("steps") <= 64 for problem in drawn)
    assert operation("stencil").operands(drawn[0]) == {"x": (drawn[0]["n"], drawn[0]["n"])}


def test_a_library_is_built_in_python_as_well(tmp_path: Path) -> None:
    document = LibraryDocument(name="mine", kernels={"product": KernelDocument.model_validate({
        "operation": "gemm", "parameters": {"tile": [1, 2, 4]}, "constraints": ["m % tile == 0"],
        "backends": ["fake"]})})
    use(declared_library(document))
    assert [family.name for family in kernels_for(parse_problem("gemm m=2 n=2 k=2"), WIDE)] == ["mine.product"]
    assert declared_library(document).kernel("mine.product") == kernel("mine.product")


def test_the_same_library_reaches_another_process_as_json(tmp_path: Path) -> None:
    library = read_library(write(tmp_path))
    again = of_message(message_of(library))
    assert again.kernel("stencil.tiled") == library.kernel("stencil.tiled")
    assert again.operations == library.operations
    use(library)
    (message,) = messages_in_use()
    use_messages([message])
    assert kernel("stencil.tiled") == library.kernel("stencil.tiled")


def test_a_version_follows_what_runs_and_not_what_is_allowed(tmp_path: Path) -> None:
    source = tmp_path / "stencil.cl"
    source.write_text("kernel void stencil() {}")
    text = STENCIL + '[kernels.tiled.opencl]\nsource = "stencil.cl"\nentry = "stencil"\nglobal = ["n"]\n'

    def version(changed: str) -> int:
        return read_library(write(tmp_path, changed)).kernel("stencil.tiled").version

    first = version(text)
    assert version(text.replace("block_y = [1, 2, 4]", "block_y = [1, 2, 4, 8]").replace("tile <= 128", "tile <= 64"))\
        == version(text.replace("time steps", "steps of time")) == first
    assert version(text.replace('global = ["n"]', 'global = ["2 * n"]')) != first
    source.write_text("kernel void stencil() { } // the same")
    assert version(text) == first
    source.write_text("kernel void stencil() { return; }")
    assert version(text) != first
    assert version(text.replace("default = {block_x = 32}", "default = {block_x = 32}\nversion = 7")) == 7


def test_a_byte_order_mark_is_no_part_of_a_source(tmp_path: Path) -> None:
    """Editors on Windows write it, and PoCL refuses it."""
    text = "kernel void stencil() {}\n"
    (tmp_path / "stencil.cl").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert source_text(tmp_path, "stencil.cl") == text


def test_a_version_covers_the_default_where_results_must_agree_with_it(tmp_path: Path) -> None:
    """A result that was wrong beside one default may be right beside another."""
    section = '[kernels.tiled.opencl]\ntext = "kernel void go() {}"\nentry = "go"\nglobal = ["n"]\n'
    command = '[kernels.tiled.command]\nrun = ["/bin/true"]\n'
    np.save(tmp_path / "y.npy", np.zeros(4, np.float32))
    expected = STENCIL.replace("inputs = {", 'expected = {y = "y.npy"}\ninputs = {')

    def versions(text: str) -> int:
        """The number of versions that two defaults, one of them declared twice, have."""
        texts = (text, text.replace("default = {block_x = 32}", "default = {block_x = 32, unroll = 1}"),
                 text.replace("default = {block_x = 32}", "default = {block_x = 64}"))
        return len({read_library(write(tmp_path, changed)).kernel("stencil.tiled").version for changed in texts})

    assert versions(STENCIL + section) == versions(expected + command) == 2
    assert versions(expected + section) == 1


def test_a_version_covers_what_is_restored_before_a_launch(tmp_path: Path) -> None:
    section = '[kernels.tiled.opencl]\ntext = "kernel void go() {}"\nentry = "go"\narguments = ["x", "y"]\n' \
        'global = ["n"]\n'

    def version(inputs: str, outputs: str, run: str = section) -> int:
        text = STENCIL.replace('inputs = {x = "n, n"}', f"inputs = {{x = {inputs}}}").replace(
            "outputs = {y = {", f"outputs = {{y = {{{outputs}")
        return read_library(write(tmp_path, text + run)).kernel("stencil.tiled").version

    start, plain = 'values = "copy of x", ', '"n, n"'
    swapped = section.replace('"y"]', '"x if launch % 2 else y"]')
    assert version(plain, "") == version('{shape = "n, n", restore = false}', "")
    assert len({version(plain, ""), version(plain, start), version(plain, start + "restore = false, "),
                version('{shape = "n, n", restore = true}', ""), version(plain, "", swapped)}) == 5
    command = '[kernels.tiled.command]\nrun = ["/bin/true"]\n'
    assert version(plain, start, command) == version(plain, start + "restore = false, ", command)  # restores itself
    with pytest.raises(FormatError, match="y has no values that could be restored"):
        version(plain, "restore = true, ")


def test_a_version_follows_files_of_one_name_in_two_folders(tmp_path: Path) -> None:
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        np.save(tmp_path / folder / "x.npy", np.zeros(4, np.float32))
    text = STENCIL.replace('inputs = {x = "n, n"}', 'inputs = {x = {shape = "n, n", values = "first/x.npy"}, '
                           'z = {shape = "n, n", values = "second/x.npy"}}')
    version = read_library(write(tmp_path, text)).kernel("stencil.tiled").version
    np.save(tmp_path / "first" / "x.npy", np.ones(4, np.float32))
    assert read_library(write(tmp_path, text)).kernel("stencil.tiled").version != version


def test_the_code_of_an_operation_needs_permission_for_kernels_of_other_libraries(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("raise RuntimeError('this code ran')\n")
    use(read_library(write(tmp_path, STENCIL.replace("outputs =", 'reference = "code:run"\noutputs ='))))
    other = LibraryDocument(name="other", kernels={"k": KernelDocument.model_validate({
        "operation": "stencil", "parameters": {"tile": [1, 2]}, "backends": ["fake"]})})
    use(declared_library(other))
    with pytest.raises(MisuseError, match=r"reference runs code of the library stencil; .* --allow-commands"):
        check_allowed(kernel("other.k"))


def test_an_edited_file_replaces_its_library_and_a_taken_name_is_refused(tmp_path: Path) -> None:
    use(read_library(write(tmp_path)))
    assert parse_problem("stencil n=64").size("flop") == 6 * 64 * 64
    use(read_library(write(tmp_path, STENCIL.replace("6 * n", "8 * n"))))
    assert parse_problem("stencil n=64").size("flop") == 8 * 64 * 64
    folder = tmp_path / "other"
    folder.mkdir()
    with pytest.raises(MisuseError, match="is in use already"):
        use(read_library(write(folder)))
    with pytest.raises(MisuseError, match="operation 'stencil' is declared by"):
        use(read_library(write(folder, STENCIL.replace('name = "stencil"', 'name = "others"'))))
    with pytest.raises(MisuseError, match="operation 'matmul'"):
        use(read_library(write(folder, STENCIL.replace("stencil", "matmul"))))
    with pytest.raises(MisuseError, match="'llvm' of seqtune is in use already"):
        use(read_library(write(folder, STENCIL.replace('name = "stencil"', 'name = "llvm"'))))


def test_what_is_neither_toml_nor_a_library_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="not TOML"):
        read_library(write(tmp_path, "name = "))
    with pytest.raises(FormatError, match="kernels"):
        read_library(write(tmp_path, 'name = "empty"'))
    with pytest.raises(FormatError):
        parse_document([])
