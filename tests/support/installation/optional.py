"""Optional packages: tests that need a missing one are skipped, and their reason names the command that installs it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from seqtune.errors import DeviceError, MissingPackageError, is_installed
from seqtune.tuner.backends.discovery import find
from seqtune.tuner.processes import usable_jobs
from tests.support.paths import ROOT

# Packages that `make test` or an installation without PyTorch may lack; `make develop` installs all.
OPTIONAL = ("torch", "onnx", "transformers", "accelerate", "triton", "cuda", "ray", "kernel_tuner", "mkdocs", "mypy")
TRAINING = ("torch", "transformers", "accelerate")  # what `seqtune train` needs


def reason(packages: Sequence[str]) -> str:
    """The reason of a skip for want of these packages."""
    command = "make develop" if set(packages) <= set(OPTIONAL) else f"pip install {' '.join(packages)}"
    return f"{', '.join(packages)} not installed: `{command}` installs it"


def needs(*packages: str) -> pytest.MarkDecorator:
    """Skip a test where one of the packages is missing."""
    missing = [package for package in packages if not is_installed(package)]
    return pytest.mark.skipif(bool(missing), reason=reason(missing))


def skip_without(*packages: str) -> None:
    """Skip the running test, or the fixture that it asks for, where one of the packages is missing."""
    missing = [package for package in packages if not is_installed(package)]
    if missing:
        pytest.skip(reason(missing))


def skip_without_device(name: str) -> None:
    """Skip the running test where this machine has no such device, such as `opencl:0`."""
    try:
        find(name)
    except DeviceError as error:
        pytest.skip(str(error))


def skip_without_semaphores() -> None:
    """Skip the running test where processes cannot share work, as without /dev/shm."""
    with warnings.catch_warnings(action="ignore"):
        if usable_jobs(2) == 1:
            pytest.skip("this system has no semaphores (no /dev/shm)")


class OptionalFile(pytest.Module):
    """A file of tests, which is skipped where it cannot be imported for want of an optional package or a guest."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """The tests of the file."""
        try:
            return super().collect()
        except (self.CollectError, MissingPackageError) as error:
            missing = _missing(error)
            if missing is None:
                raise
            pytest.skip(missing, allow_module_level=True)


def _missing(error: BaseException) -> str | None:
    """The reason of the skip; None where the error is another one than a missing optional package."""
    cause: Any = error.__cause__
    if isinstance(error, MissingPackageError):
        return f"{error}"
    if isinstance(cause, ModuleNotFoundError) and (package := str(cause.name).partition(".")[0]) in OPTIONAL:
        return reason([package])
    guest = re.fullmatch(r"seqtune\.integrations\.(\w+)", str(getattr(cause, "name", None)))
    if guest is not None and not (ROOT / "integrations" / guest[1]).exists():  # in a house without this guest
        return f"the guest {guest[1]} is deleted"
    return None
