"""The conditions of a training: its packages are installed, and its process is alone."""

from __future__ import annotations

import os

from seqtune.errors import MisuseError, check_installed

# Variables with the number of processes that torchrun or mpirun has started. The Trainer would join them.
PROCESSES = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")


def check_can_train() -> None:
    """Raise MissingPackageError if a package is missing, and MisuseError if the process is one of several."""
    check_installed("train", "torch", "transformers", "accelerate")
    for variable in PROCESSES:
        if os.environ.get(variable, "1") != "1":
            raise MisuseError(f"a training is one process, and {variable}={os.environ[variable]!r:.20} says that there "
                              "are several; start it without torchrun or mpirun")
