"""Folders of programs: the command line with its values, and the files that it names."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from seqtune.kernels.libraries.reading import read_library
from seqtune.kernels.libraries.table import use
from seqtune.kernels.linting.kernel import typical_device
from seqtune.tuner.building.chosen import files_of, write_folder
from tests.support.built_folders import chosen
from tests.support.learning.c_programs import needs_compiler
from tests.support.paths import ROOT


@needs_compiler
def test_the_script_builds_and_runs_the_program(tmp_path: Path) -> None:
    use(read_library(ROOT / "examples" / "blur"))
    files = files_of([chosen("box_blur rows=40 columns=50 radius=2", typical_device("command"), "",
                             {"across": "running", "band": 4}, "blur")])
    about = json.loads(files["launch.json"])["kernels"][0]
    assert (about["run"], about["files"]) == (["./blur.program", "40", "50", "2", "4"], ["blur.c"])
    write_folder(files, tmp_path / "out")
    done = subprocess.run(["sh", tmp_path / "out" / "blur.sh"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout.splitlines()[-1])["error"] < 1e-4
