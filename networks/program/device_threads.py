"""The llvm device with as many threads as PyTorch has, at most one per core, and what binds kernels on it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache, wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

import torch

from seqtune.errors import MisuseError
from seqtune.kernels.devices.device import Device
from seqtune.tuner.backends.discovery import find
from seqtune.tuner.backends.image_cache import ImageCache
from seqtune.tuner.backends.llvm.compiler import Compiler
from seqtune.tuner.backends.llvm.threads import Threads, Turn

from .bound_kernels import KernelBinder, ThreadPool
from .openmp import OpenMP, loaded_runtime

_COMPILING = threading.RLock()
P = ParamSpec("P")
T = TypeVar("T")


TURN = Turn()  # one program runs at a time: those of a device share a workspace


def one_at_a_time(function: Callable[P, T]) -> Callable[P, T]:
    """A function that one thread runs at a time, outside autocast; others wait."""
    @wraps(function)
    def locked(*args: P.args, **kwargs: P.kwargs) -> T:
        with _COMPILING, torch.autocast("cpu", enabled=False):
            return function(*args, **kwargs)

    return locked


def device_for_threads(count: int) -> Device:
    """The llvm device of this CPU's widest vectors with `count` threads, at most one per core. Raises DeviceError."""
    best = find("llvm:0")
    return find(f"llvm:{best.instruction_set}:{min(count, best.threads)}")


def device_of_pytorch() -> Device:
    """The device with as many threads as PyTorch has now, at most one per core. Raises DeviceError."""
    return device_for_threads(torch.get_num_threads())


@lru_cache(maxsize=4)
def binder_of(device: Device) -> KernelBinder:
    """The binder of a device, one for each process: all models share its threads and workspace.

    Where PyTorch's OpenMP runtime is not found, our own threads run the kernels, and the calling thread is pinned.
    Raises MisuseError for a device of another backend.
    """
    if device.backend != "llvm":
        raise MisuseError(f"{device.name} does not compute in PyTorch's memory; choose an llvm device")
    compiler = Compiler(device.instruction_set, ImageCache("object"))
    runtime = loaded_runtime(Path(torch.__file__).parent)
    threads: ThreadPool = (Threads(compiler, device.threads) if runtime is None
                           else OpenMP(compiler, device.threads, runtime))
    return KernelBinder(device, compiler, threads)
