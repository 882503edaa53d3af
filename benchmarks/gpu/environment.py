"""Environment slice: facts that every later figure depends on. A tool that is missing is a fact, too."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping

import psutil

from benchmarks.gpu.day import Day
from benchmarks.gpu.slices import SliceOutcome
from seqtune import api

PACKAGES = (  # packages that hold the same modules stand in one line, separated by spaces
    "seqtune", "numpy", "torch", "triton", "pycuda", "cuda-bindings", "nvidia-cuda-nvrtc", "pyopencl", "llvmlite",
    "xgboost-cpu xgboost", "nvidia-matmul-heuristics", "nvidia-cublas nvidia-cublas-cu12",
    "nvidia-cudnn-cu13 nvidia-cudnn-cu12")
COMMANDS = (  # they read; nothing here changes a clock, a power limit or a mode
    ("gpu", ("nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.sm,clocks.max.sm,clocks.mem,"
                           "power.limit,temperature.gpu,mig.mode.current", "--format=csv")),
    ("processes", ("nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv")),
    ("nvcc", ("nvcc", "--version")),
    ("ptxas", ("ptxas", "--version")),
    ("sanitizer", ("compute-sanitizer", "--version")),
    ("cuobjdump", ("cuobjdump", "--version")),
)
COMMAND_SECONDS = 20.0
LONGEST_OUTPUT = 2000  # characters of one command that are kept


def output_of(command: tuple[str, ...]) -> str:
    """The output of a command, or why there is none."""
    if shutil.which(command[0]) is None:
        return f"{command[0]} is not installed"
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMMAND_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}"[:LONGEST_OUTPUT]
    return (done.stdout or done.stderr).strip()[:LONGEST_OUTPUT]


def version_of(package: str) -> str | None:
    """The version of an installed package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def missing(versions: Mapping[str, str | None]) -> list[str]:
    """The packages of which no form is installed, each by its first name."""
    return [names.split()[0] for names in PACKAGES if all(versions[name] is None for name in names.split())]


def run(day: Day, name: str) -> SliceOutcome:
    """Read the facts and list the devices that are found."""
    listed = api.devices()
    packages = {name: version_of(name) for names in PACKAGES for name in names.split()}
    result = {
        "system": platform.platform(), "python": platform.python_version(), "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1), "load": os.getloadavg()[0],
        "packages": packages, "commands": {label: output_of(command) for label, command in COMMANDS},
        "facts": day.device.to_json(), **listed.to_json()}
    here = ", ".join(device.name for _, device in listed.listed) or "none"
    return SliceOutcome(True, f"devices found: {here}; not installed: {', '.join(missing(packages)) or 'nothing'}",
                        result)
