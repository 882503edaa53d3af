"""CLBlastImplementation: asks an OpenCL backend to call the installed library with a configuration's parameters."""

from __future__ import annotations

from typing import Any

from ..kernel import Configuration
from ..problem import Problem

LIBRARY = "clblast"  # the name by which backends know the library


class CLBlastImplementation:
    """Runs both kernel families by calls of CLBlastSgemm; the parameters name the family."""

    includes = "the call of CLBlastSgemm with all copies that it makes; program built before, once"

    def executable(self, backend: Any, problem: Problem, configuration: Configuration) -> Any:
        """Make an executable on the backend's device. Raises BuildError, LaunchError or UnavailableError."""
        return backend.call_library(LIBRARY, problem, configuration)


IMPLEMENTATION = CLBlastImplementation()
