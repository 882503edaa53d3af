"""compute-sanitizer over samples of every cuda family: memcheck, racecheck and synccheck find nothing.

memcheck finds accesses out of bounds, racecheck hazards in shared memory, synccheck divergent barriers. A tool sees
nothing of a run that was not launched, so the launches are counted, too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from seqtune.kernels.registry import table
from tests.support.cuda import fake_pycuda
from tests.support.installation.optional import skip_without_device
from tests.support.paths import ROOT

PROGRAM = Path(fake_pycuda.__file__).parent / "launched_samples.py"
SAMPLES = 3  # of a family; a tool slows a kernel down up to a hundred times


def findings(output: str) -> int | None:
    """The number of errors and hazards in the tool's output; None if it has no summary, so did not finish.

    Summaries read `ERROR SUMMARY: 0 errors` and `RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)`.
    """
    summaries = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)", output)
    return sum(map(int, summaries)) if summaries else None


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
@pytest.mark.parametrize("family", table("cuda"))
def test_a_tool_finds_nothing_in_a_family(family: str, tool: str) -> None:
    skip_without_device("cuda:0")
    if shutil.which("compute-sanitizer") is None:
        pytest.skip("compute-sanitizer is not installed; it comes with the CUDA toolkit")
    done = subprocess.run(
        ["compute-sanitizer", "--tool", tool, "--print-limit", "20", sys.executable, str(PROGRAM), "cuda:0", family,
         str(SAMPLES)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=600,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])})
    output = done.stdout + done.stderr
    assert findings(output) == 0, output[-3000:]
    assert output.count("status correct") == SAMPLES, output[-3000:]
