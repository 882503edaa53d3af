"""The program that checks kernel texts on OpenCL runtimes, and what it reads from Oclgrind's log."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from seqtune.errors import UnavailableError
from tests.support.paths import ROOT
from tests.support.phones import PHONES

from .runtimes import LIBRARY_VARIABLES, Faults, environment, faults, library

LOG = """
Read-write data race at local memory address 0x1000000000004
\tKernel: racy

\tFirst entity:  Global(1,0,0) Local(1,0,0) Group(0,0,0)

Invalid write of size 4 at global memory address 0x2000000000080
\tKernel: stray

Work-group divergence detected (barrier):
\tKernel: divergent

INTERNAL ERROR: unsupported instruction
"""
# A kernel of ours whose barriers are gone, simulated.
BARRIERLESS = """
import numpy as np
from tests.opencl_runtimes.__main__ import compute, open_runtime
from seqtune.kernels.devices.accelerators import described
from seqtune.kernels.c_text import prelude
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.measuring.reference import make_operands
prelude._OPENCL_COPIES += "#undef barrier\\n#define barrier(fence)\\n"
problem, family = parse_problem("gemm m=16 n=16 k=40"), kernel("cuda.shared_gemm")
space = SearchSpace(family, problem, described("cuda", "h200"))
compute(open_runtime("oclgrind"), problem, family, space.default, make_operands(problem))
"""
# Proposals for a phone's GPU, simulated on a device with its limits.
ON_A_PHONE = """
import sys
from tests.opencl_runtimes.__main__ import compute, open_runtime
from tests.support.phones import PHONES
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import spaces_for
from seqtune.predictor.answering import answering
from seqtune.tuner.backends.opencl.group_limits import GroupLimits
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


def test_errors_in_a_log_are_counted_by_kind() -> None:
    assert faults(LOG) == Faults(races=1, stray=1, divergent=1, other=1)
    assert faults(LOG).total == 4
    assert faults("") == Faults()


def test_a_runtime_is_found_by_option_then_by_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = tmp_path / "one.so", tmp_path / "two.so"
    here.touch()
    there.touch()
    monkeypatch.setenv(LIBRARY_VARIABLES["intel"], str(there))
    assert library("intel", here) == here
    assert library("intel", None) == there
    assert library("pocl", None) is None
    variables = environment("intel", there, tmp_path)
    assert Path(variables["OCL_ICD_VENDORS"], "intel.icd").read_text().strip() == str(there)
    monkeypatch.setenv(LIBRARY_VARIABLES["intel"], str(tmp_path / "none.so"))
    with pytest.raises(UnavailableError, match=r"none\.so"):
        library("intel", None)


def test_a_runtime_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "tests.opencl_runtimes", "--runtime", "intel", "--library",
                           str(tmp_path / "none.so")], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1


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
def test_a_simulator_sees_that_barriers_are_missing(tmp_path: Path) -> None:
    variables = environment("oclgrind", oclgrind(), tmp_path)
    subprocess.run([sys.executable, "-W", "ignore", "-c", BARRIERLESS], cwd=ROOT, env=variables, check=True,
                   capture_output=True)
    assert faults((tmp_path / "oclgrind.log").read_text()).races > 0


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
