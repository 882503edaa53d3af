"""ObjectSizes: how much room kernels take in a library that ships them compiled, as the backend's compiler tells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.lookup import resolve
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.tuner.backends.backend import BuildError
from seqtune.tuner.backends.compilers import OBJECT_COMPILERS, ObjectCompiler

from ...errors import DeviceError, MisuseError, UnavailableError


@dataclass(frozen=True)
class ObjectSizes:
    """The bytes of objects on a device; each configuration is compiled once for a problem."""

    compiler: ObjectCompiler
    kernels: Mapping[str, Kernel]  # by name
    known: dict[tuple[Problem, Configuration], float] = field(default_factory=dict)

    @classmethod
    def of(cls, device: Device, tasks: Sequence[Task]) -> ObjectSizes:
        """The sizes of the tasks' kernels. Raises MisuseError if the backend or a kernel tells none."""
        kernels = {kernel.name: (kernel, task, space) for task in tasks
                   for kernel, space in zip(task.kernels, task.spaces, strict=True)}
        try:
            if device.backend not in OBJECT_COMPILERS or not kernels:
                raise UnavailableError(f"only {', '.join(OBJECT_COMPILERS)} tell them")
            factory: Any = resolve(OBJECT_COMPILERS[device.backend])
            sizes = cls(factory(device), {name: kernel for name, (kernel, _, _) in kernels.items()})
            for _, task, space in kernels.values():
                sizes.largest(space.default, [task.problem])
        except (DeviceError, MisuseError, UnavailableError) as error:
            raise MisuseError(f"nothing tells the bytes of kernels on {device.name} ({error}); ask for a number of "
                              "kernels instead") from None
        return sizes

    def largest(self, configuration: Configuration, problems: Iterable[Problem]) -> float:
        """The bytes of the largest object among those for the problems; infinite if one does not build."""
        return max(self._size(problem, configuration) for problem in problems)

    def _size(self, problem: Problem, configuration: Configuration) -> float:
        key = problem, configuration
        if key not in self.known:
            try:
                self.known[key] = self.compiler.object_bytes(problem, self.kernels[configuration.kernel], configuration)
            except BuildError:
                self.known[key] = math.inf
        return self.known[key]
