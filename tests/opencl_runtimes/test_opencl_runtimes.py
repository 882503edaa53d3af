"""Kernel texts on a simulator of OpenCL: no race, no stray access, within the limits of phones."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.phones import PHONES

from .runtimes import LIBRARY_VARIABLES, Faults, environment, faults

# Proposals for a phone's GPU, simulated on a device with its limits.
ON_A_PHONE = """
import sys
from tests.opencl_runtimes.__main__ import compute, open_runtime
from tests.support.phones import PHONES
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import spaces_for
from seqtune.predictor.answering import answering
from seqtune.tuner.backends.opencl.calls import GroupLimits
from seqtune.tuner.measuring.timing import prepare
backend, device = open_runtime("oclgrind"), PHONES[int(sys.argv[1])].device
assert backend.handle.max_work_group_size == device.max_work_group
backend.device, backend.limits = device, GroupLimits(backend.cl, backend.handle, device)
for words in ("gemm m=16 n=24 k=16", "conv2d c=8 h=6 w=7 k=16 r=3 s=3 pad=1", "conv2d c=8 h=4 w=8 k=16 r=1 s=1"):
    problem = parse_problem(words.split())
    operands, expected = prepare(problem)
    defaults = [space.default for space in spaces_for(problem, device)]
    for configuration in (*answering(problem, device).propose(2), *defaults):
        y = compute(backend, problem, kernel(configuration.kernel), configuration, operands)
        assert expected.error(y) <= expected.tolerance, (words, configuration.brief())
"""


def oclgrind() -> Path:
    """Oclgrind's library; the test is skipped where there is none."""
    named = os.environ.get(LIBRARY_VARIABLES["oclgrind"])
    program = shutil.which("oclgrind")
    places = [Path(named)] if named else []
    if program:
        places.append(Path(program).resolve().parent.parent / "lib" / "oclgrind" / "liboclgrind-rt-icd.so")
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        pytest.skip("Oclgrind is not installed (Debian: oclgrind), and OCLGRIND_LIBRARY names no library")
    return found


@pytest.mark.device
def test_a_simulator_finds_no_race_and_no_stray_access_in_a_sample() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.opencl_runtimes", "--runtime", "oclgrind", "--library", str(oclgrind()),
         "--sample", "12", "--seed", "5", "--json"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(done.stdout)
    assert results["configurations"] == 12
    assert results["with_barriers"] > 0
    assert set(results["faults"].values()) == {0}


@pytest.mark.device
@pytest.mark.parametrize("phone", range(len(PHONES)), ids=[phone.name for phone in PHONES])
def test_a_simulator_with_the_limits_of_a_phone_runs_what_is_proposed_for_it(phone: int, tmp_path: Path) -> None:
    device = PHONES[phone].device
    variables = {**environment("oclgrind", oclgrind(), tmp_path), "OCLGRIND_MAX_WGSIZE": str(device.max_work_group),
                 "OCLGRIND_LOCAL_MEM_SIZE": str(device.local_memory or 1)}  # the least that it takes
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", ON_A_PHONE, str(phone)], cwd=ROOT, env=variables,
                          check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert faults((tmp_path / "oclgrind.log").read_text()) == Faults()
