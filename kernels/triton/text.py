"""Text of Triton kernels: a module of `source`, the values of its constants, and the grid of a launch.

A Triton kernel is a Python function, which Triton compiles from its file. A source is therefore the file's text, which
is its identity, and as options the module's name and the constants, which select what is compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from ..devices.device import Device
from ..kernel import Setting
from ..launches.call import Argument, CallStep
from ..launches.implementation import KernelSource

# Parameters of AMD's compiler, and their values on GPUs of other makers.
AMD_ONLY = {"waves_per_eu": 0, "matrix_instr_nonkdim": 0, "kpack": 1}


@lru_cache(maxsize=8)
def text_of(module: str) -> str:
    """The text of a module in `source`, without importing it."""
    return (Path(__file__).parent / "source" / f"{module}.py").read_text(encoding="utf-8")


def flags(constants: Mapping[str, Setting], device: Device) -> tuple[str, ...]:
    """The constants as options, `NAME=value`; those of AMD's compiler only for AMD's GPUs."""
    nvidia = device.names().get("compute_capability", 0) != 0
    return tuple(f"{name}={value}" for name, value in constants.items() if not (nvidia and name in AMD_ONLY))


def constants_of(source: KernelSource) -> tuple[str, dict[str, Setting]]:
    """The inverse of `flags`: the module's name, and the constants by name."""
    module, *options = source.options
    pairs = (option.split("=", 1) for option in options)
    return module, {name: int(value) if value.isdecimal() else value for name, value in pairs}


def grid_step(entry: str, arguments: tuple[Argument, ...], threads: int, *programs: int) -> CallStep:
    """A step over a grid of programs, whose sizes are `programs`; each program has `threads` threads."""
    first, *rest = programs
    return CallStep(entry, arguments, (first * threads, *rest), (threads, *(1 for _ in rest)))
