"""LibraryCall: an implementation that asks a backend to call an installed library with a configuration's parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..kernel import Configuration
from ..problem import Problem


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """Runs kernels by calls of a library, of which backends have a table; the configuration names the kernel."""

    library: str
    includes: str  # see `seqtune.kernels.launches.implementation.Implementation`

    def executable(self, backend: Any, problem: Problem, configuration: Configuration) -> Any:
        """Make an executable on the backend's device. Raises BuildError, LaunchError or UnavailableError."""
        return backend.call_library(self.library, problem, configuration)
