"""The page of the architecture: its walks name what exists."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "internals" / "architecture.md"
# Prints the files of `predictor/` in which a function runs in the first predictions of a process, for two problems.
TRACED = """
import inspect, os, sys
from pathlib import Path
import seqtune
from tests.support.devices import device_of
root = Path.cwd()
entered = set()
def note(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_flags & inspect.CO_OPTIMIZED:  # not the body of a module or a class
        entered.add(code.co_filename)
sys.setprofile(note)
for problem in ("gemm m=100 n=48 k=512", "conv2d n=1 c=64 h=28 w=28 k=96 r=3 s=3 pad=1"):
    seqtune.predict(problem, device_of("llvm"))
sys.setprofile(None)
files = (Path(os.path.realpath(name)) for name in entered)
print(*(path.relative_to(root).as_posix() for path in files if path.is_relative_to(root / "predictor")))
"""


def walk_of_a_prediction() -> list[tuple[str, str]]:
    """The name and the file of each step of the page's walk."""
    block = PAGE.read_text().partition("```text")[2].partition("```")[0]
    return re.findall(r"^[ │├└]*(\S.*?)  +(\w+/[\w/.]+)  ", block, re.MULTILINE)


def test_every_file_of_the_walk_of_a_prediction_has_its_name() -> None:
    walk = walk_of_a_prediction()
    assert walk[0] == ("seqtune predict gemm ...", "seqtune/cli/commands/predicting.py")
    for name, path in walk[1:]:
        assert re.search(rf"(def|class) {name.rpartition('.')[2]}\b", (ROOT / path).read_text()), path


def test_the_walk_of_a_prediction_names_the_files_that_predictions_enter(tmp_path: Path) -> None:
    walk = {path for _, path in walk_of_a_prediction() if path.startswith("predictor/")}
    printed = subprocess.run([sys.executable, "-c", TRACED], capture_output=True, text=True, check=True, cwd=ROOT,
                             env={**os.environ, "XDG_DATA_HOME": str(tmp_path)}).stdout
    assert set(printed.split()) == walk
