"""The cuda backend with pycuda itself, on a stand-in for the driver's library that counts calls and refuses wrong ones.

The library is compiled here; nothing is executed by it, so outputs stay NaN. Without pycuda or gcc the test is skipped.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from seqtune.kernels.registry import table
from tests.support.cuda import fake_pycuda
from tests.support.paths import ROOT

HERE = Path(fake_pycuda.__file__).parent
MISSING = [name for name, present in (
    ("pycuda", importlib.util.find_spec("pycuda")), ("gcc", shutil.which("gcc")),
    ("cuda-bindings", importlib.util.find_spec("cuda"))) if not present]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")


def test_the_backend_calls_the_driver_as_it_must_and_gives_everything_back(tmp_path: Path) -> None:
    source, library = str(HERE / "libcuda_stand_in.c"), str(tmp_path / "libcuda.so.1")
    subprocess.run(["gcc", "-w", "-shared", "-fPIC", source, "-Wl,-soname,libcuda.so.1", "-o", library], check=True)
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": path}
    done = subprocess.run([sys.executable, str(HERE / "stand_in_session.py")], env=environment, capture_output=True,
                          text=True, cwd=tmp_path, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["device"]["name"] == "cuda:h200"
    assert set(answer["built"]) == set(table("cuda"))
    assert set(answer["built"].values()) == {
        "NaN in the output, or part of it never written, or an input read outside"}
    assert all(seconds > 0 for seconds in answer["times"].values())
    assert answer["during"]["refused"] == 0
    assert answer["during"]["launches"] > len(answer["built"])
    assert (answer["refused"], answer["wrong"]) == (3, [])
    live = ("memory", "streams", "contexts", "modules", "graphs", "events")
    assert {name: answer["after"][name] for name in live} == dict.fromkeys(live, 0)
