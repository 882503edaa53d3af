"""A fresh interpreter, and what it loads."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("torch", "transformers", "accelerate", "llvmlite", "pyopencl", "xgboost", "pandas", "pyarrow", "numpy",
         "scipy")


def loaded_after(code: str) -> set[str]:
    """The heavy packages that a fresh interpreter has loaded after running the code."""
    report = f"\nimport sys; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code + report], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())
