"""The libraries in examples/: each is sound, and its kernels run, agree with their reference and are kept."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from seqtune.__main__ import main
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Status
from seqtune.kernels.problem_sets.parse import read_problems
from tests.support.command_line import Run
from tests.support.documentation import ROOT
from tests.support.installation.optional import skip_without_device

EXAMPLES = {  # name -> (device, a small problem)
    "stencil": ("opencl:0", "heat rows=40 columns=50 steps=4"),
    "reduction": ("opencl:0", "row_sums rows=9 columns=300"),
    "vector_add": ("opencl:0", "vector_add n=1000"),
    "matrix_product": ("opencl:0", "matrix_product m=20 n=30 k=40"),
    "convolution": ("opencl:0", "image_filter height=20 width=30 size=5"),
    "blur": ("command:cpu", "box_blur rows=40 columns=50 radius=3"),
}


def _file(name: str) -> str:
    return str(ROOT / "examples" / name / "library.toml")


def test_every_example_is_tested() -> None:
    assert {path.parent.name for path in (ROOT / "examples").glob("*/library.toml")} == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_file_of_an_example_has_no_mistake(name: str, run: Run) -> None:
    spaces = run("kernels", _file(name))["spaces"]
    assert all(space["configurations"] > 0 for space in spaces)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_problems_of_an_example_can_be_read(name: str) -> None:
    assert main(["devices", "--library", _file(name)]) == 0
    assert len(read_problems(ROOT / "examples" / name / "problems.csv")) >= 30


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_kernel_of_an_example_computes_what_it_should(name: str, tmp_path: Path) -> None:
    device, problem = EXAMPLES[name]
    if device == "command:cpu" and shutil.which("cc") is None:
        pytest.skip("no C compiler (cc) is installed")
    skip_without_device(device)
    journal = tmp_path / "journal.sqlite"
    command = ["tune", problem, "--library", _file(name), "--allow-commands", "--device", device, "--trials", "2",
               "--journal", str(journal), "--json"]
    assert main(command) == 0
    with Journal(journal) as records:
        measurements = [record.measurement for record in records.records()]
    assert len(measurements) >= 2
    assert [(one.status, one.message) for one in measurements if one.status is not Status.CORRECT] == []
