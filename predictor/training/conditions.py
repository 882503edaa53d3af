"""The conditions of a training: its packages, its process, variables of launchers that change it, and its CPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from seqtune.errors import MisuseError, check_installed
from seqtune.tuner.backends.llvm.compiler import host_features

# Variables with the number of processes that torchrun or mpirun has started. The Trainer would join them.
PROCESSES = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
# Variables of launchers, by how their names begin: they would change the Trainer's precision, device and processes.
LAUNCHERS = ("ACCELERATE_", "LOCAL_RANK")


def check_can_train() -> None:
    """Raise MissingPackageError if a package is missing, and MisuseError if the process is one of several."""
    check_installed("train", "torch", "transformers", "accelerate")
    for variable in PROCESSES:
        if os.environ.get(variable, "1") != "1":
            raise MisuseError(f"a training is one process, and {variable}={os.environ[variable]!r:.20} says that there "
                              "are several; start it without torchrun or mpirun")


@contextmanager
def no_launcher() -> Iterator[None]:
    """A context in which the variables of launchers are unset, so that the same seed gives the same weights."""
    hidden = {name: value for name, value in os.environ.items() if name.startswith(LAUNCHERS)}
    for name in hidden:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(hidden)


def has_bf16_products() -> bool:
    """Whether this CPU has products of bfloat16 numbers; without, such a step takes ten times as long as in float32."""
    features = host_features()
    return features.get("avx512bf16", False) or features.get("bf16", False)  # of x86-64, and of ARM
