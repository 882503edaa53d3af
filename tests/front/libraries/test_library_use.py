"""Libraries on the command line and in Python: --library on every command, permission for code, records of others."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

import seqtune
from seqtune.__main__ import main
from seqtune.cli import app
from seqtune.data.dataset import Dataset
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.errors import CheckpointError, FormatError, KernelError, MisuseError, SeqtuneWarning
from seqtune.kernels.libraries.table import IN_USE
from seqtune.kernels.operations.table import OPERATIONS
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.task import Task
from tests.support.command_line import Refused, Run
from tests.support.libraries.stencil import STENCIL, write
from tests.support.paths import ROOT
from tests.support.synthetic import WIDE
from tests.support.untrained import save

REFERENCE = STENCIL.replace('inputs = {x', 'reference = "stencil_reference:run"\ninputs = {x')


def _forget() -> None:
    """Put the library out of use, as in a new process."""
    del IN_USE["stencil"], OPERATIONS["stencil"]


def test_every_command_takes_libraries() -> None:
    program: Any = typer.main.get_command(app)
    for name, command in program.commands.items():
        assert {"library", "allow_commands"} <= {parameter.name for parameter in command.params}, name


def test_a_library_is_shown_and_predicted_and_other_libraries_are_refused(
        tmp_path: Path, run: Run, refused: Refused) -> None:
    path = str(write(tmp_path))
    (shown,) = run("kernels", "--library", path, "stencil.tiled")["kernels"]
    assert shown["name"] == "stencil.tiled"
    with pytest.raises(CheckpointError, match=r"no checkpoint knows stencil.tiled; train one \(seqtune train\)"):
        seqtune.predict("stencil n=64", WIDE, evidence=False)
    folder = save(tmp_path / "checkpoint", WIDE, "stencil.tiled")
    answer = seqtune.predict("stencil n=64", WIDE, 3, checkpoint=folder, evidence=False)
    assert [candidate.configuration.kernel for candidate in answer.candidates] == ["stencil.tiled"] * 3
    seqtune.use_library(write(tmp_path, STENCIL.replace('name = "s', 'checkpoint = "checkpoint"\nname = "s')))
    assert seqtune.predict("stencil n=64", WIDE, 3, evidence=False).candidates == answer.candidates
    assert "no library 'nowhere'" in refused("devices", "--library", "nowhere")
    assert main(["devices", "--allow-commands"]) == 2


@pytest.mark.usefixtures("fake_kernel")
def test_records_of_a_library_that_is_not_in_use_are_left_out_with_a_note(tmp_path: Path) -> None:
    seqtune.use_library(write(tmp_path))
    journal, both = tmp_path / "journal.sqlite", tmp_path / "both.parquet"
    with Journal(journal) as opened:
        opened.add_device(WIDE)
        for text, name in (("stencil n=64", "stencil.tiled"), ("conv2d c=16 h=8 k=16 r=3 pad=1", "fake.direct")):
            problem = parse_problem(text)
            for configuration in list(Task.of(problem, WIDE, [kernel(name)]))[:3]:
                opened.add(Record(problem, WIDE.key, 1, configuration, "none", Measurement(Status.CORRECT, (1e-3,))))
    seqtune.export(both, journal=journal)
    assert {problem.type for problem in Dataset.read(both).problems()} == {"stencil", "conv2d"}
    _forget()
    with pytest.raises(FormatError, match=r"both.parquet: no operation 'stencil'; .* name its library with --library"):
        Dataset.read(both)
    with Journal(journal) as opened:
        assert {problem.type for problem in opened.problems()} == {"conv2d"}
        assert len(opened.newest(WIDE.key, 10)) == 3
    with pytest.warns(SeqtuneWarning, match="the records of stencil are left out; name their library"):
        seqtune.export(tmp_path / "some.parquet", journal=journal)
    assert len(Dataset.read(tmp_path / "some.parquet")) == 3
    seqtune.use_library(write(tmp_path, STENCIL.replace('n = "rows and columns"', 'n = "rows", width = "columns"')))
    refuses = r"the records of 1 problem that the operation refuses now are left out: stencil needs width \(columns\)"
    with pytest.warns(SeqtuneWarning, match=refuses):
        seqtune.export(tmp_path / "others.parquet", journal=journal)
    assert len(Dataset.read(tmp_path / "others.parquet")) == 3


def test_code_of_a_file_runs_only_when_it_is_allowed(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "stencil_reference.py").write_text("raise RuntimeError('this code ran')\n")
    (tmp_path / "code.py").write_text("raise RuntimeError('this code ran')\n")
    path = write(tmp_path, REFERENCE.replace('backends = ["opencl", "fake"]',
                                             'backends = ["llvm"]\nimplementation = "code:OBJECT"'))
    words = ["stencil", "n=64", "--library", str(path)]
    journal = tmp_path / "journal.sqlite"
    error = refused("tune", *words, "--trials", "1", "--journal", journal)
    assert "--allow-commands" in error
    assert "implementation" in error
    assert not journal.exists()
    assert main(["kernels", "stencil.tiled", "--library", str(path)]) == 0
    with pytest.raises(MisuseError, match="allow-commands"):
        IN_USE["stencil"].check_allowed(kernel("stencil.tiled"))  # type: ignore[union-attr]
    allowed = seqtune.use_library(path, allow_commands=True)
    allowed.check_allowed(kernel("stencil.tiled"))


def test_our_own_libraries_are_used_by_name() -> None:
    assert seqtune.use_library("llvm").name == "llvm"


def test_a_library_is_found_as_an_installed_distribution(tmp_path: Path) -> None:
    """A package and its `.dist-info`, as pip installs them; a process of its own, since it changes the import path."""
    package, info = tmp_path / "stencils", tmp_path / "stencils-1.2.dist-info"
    package.mkdir()
    info.mkdir()
    write(package)
    (package / "__init__.py").write_text("from pathlib import Path\nfrom seqtune.api.library import read_library\n"
                                         "def library():\n    return read_library(Path(__file__).parent)\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stencils\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[seqtune.libraries]\nstencil = stencils:library\n"
                                           "broken = stencils:nothing\n")
    program = ("import sys; from seqtune.__main__ import main; import seqtune.kernels.registry as registry\n"
               "code = main(['kernels', '--library', 'stencil', 'stencil.tiled'])\n"
               "code += 10 * main(['kernels', '--library', 'broken'])\nsys.exit(code)")
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False,
                            env={"PYTHONPATH": f"{ROOT}:{tmp_path}", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    assert result.returncode == 20, result.stderr
    assert "stencil.tiled (version" in result.stdout
    assert "the library 'broken' of stencils 1.2 cannot be loaded: AttributeError" in result.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="no programs here")
def test_a_library_whose_every_configuration_is_excluded_says_by_what(tmp_path: Path, refused: Refused) -> None:
    path = write(tmp_path, STENCIL.replace('"tile <= 128"', '"tile > 9999"'))
    seqtune.use_library(path)
    folder = save(tmp_path / "checkpoint", WIDE, "stencil.tiled")
    message = (r"solves stencil n=64: stencil.tiled: none of its 18 configurations is allowed: 'tile > 9999' excludes "
               r"all \(too many work-items\)")
    with pytest.raises(KernelError, match=message):
        seqtune.predict("stencil n=64", WIDE, 3, checkpoint=folder, evidence=False)
    write(tmp_path, """name = "tool"
[operations.work]
features = {n = "size"}
[kernels.shell]
parameters = {a = [1, 2], b = [1, 2]}
constraints = ["a < 2", "b < 2", "a * b > 3"]
[kernels.shell.command]
run = ["/bin/sh", "-c", "{a} {b}"]
""")
    words = ["--library", path, "--allow-commands", "--device", "command:cpu", "--journal", tmp_path / "journal.sqlite"]
    refusal = refused("tune", "work", "n=4", *words, "--trials", "2")
    assert "none of its 4 configurations is allowed: 'a * b > 3' excludes the last" in refusal


@pytest.mark.skipif(sys.platform != "linux", reason="no programs here")
def test_problems_without_a_kernel_for_the_default_device_are_refused_with_the_right_one(
        tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "library.toml").write_text("""name = "tool"
[operations.work]
features = {n = "size"}
[kernels.shell]
parameters = {a = [1, 2]}
[kernels.shell.command]
run = ["/bin/sh", "-c", "{a}"]
""")
    (tmp_path / "set.txt").write_text("work n=4\nwork n=5\n")
    words = ["--problems", tmp_path / "set.txt", "--library", tmp_path / "library.toml", "--allow-commands"]
    refusal = refused("tune", *words, "--trials", "2", "--journal", tmp_path / "journal.sqlite")
    assert "no kernel of llvm solves work n=4: there is none for work" in refusal
    assert "its kernels run on command (--device command:cpu)" in refusal
    assert not (tmp_path / "journal.sqlite").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="no programs here")
def test_a_search_in_which_nothing_runs_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "library.toml").write_text("""name = "broken"
[operations.work]
features = {n = "size"}
[kernels.shell]
parameters = {a = [1, 2]}
[kernels.shell.command]
run = ["/bin/sh", "-c", "echo 'no such tile' >&2; exit 3"]
""")
    words = ["tune", "work n=4", "--library", str(tmp_path / "library.toml"), "--allow-commands", "--device",
             "command:cpu", "--trials", "2", "--journal", str(tmp_path / "journal.sqlite")]
    assert main(words) == 1
    said = capsys.readouterr()
    assert "work n=4: nothing ran; 2 of 2 trials failed: 2 runtime (the first has a=1): 'the program" in said.out
    assert "finals" not in said.out
    assert "sure:" not in said.out
    assert said.err.splitlines()[-1] == "seqtune: the problem could not be tuned; the lines above say why"
    assert main([*words, "--json"]) == 1
    [result] = json.loads(capsys.readouterr().out)["results"]
    assert (result["failed"], result["best"]) == (2, None)
    [failure] = result["failures"]
    assert (failure["status"], failure["count"]) == ("runtime", 2)
    assert "no such tile" in failure["message"]
