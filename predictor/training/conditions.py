"""The conditions of a training: its packages are installed, its process is alone, and no launcher configures it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from seqtune.errors import MisuseError, check_installed

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
