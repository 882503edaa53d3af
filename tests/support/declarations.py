"""A configuration checked by the declaration of its kernel alone, without its search space."""

from __future__ import annotations

from typing import Any

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.problem import Problem


def why_invalid(kernel: Kernel, device: Device, problem: Problem, configuration: Configuration) -> str | None:
    """The reason why a configuration is invalid, by one expression after the other over plain numbers, or None."""
    names: dict[str, Any] = {**device.names(), **problem.names(), **dict(configuration.settings)}
    if [name for name, _ in configuration.settings] != [*kernel.by_name]:
        return "other parameters than the kernel has"
    for parameter in kernel.parameters:
        if names[parameter.name] not in parameter.values:
            return f"{parameter.name}={names[parameter.name]} is not one of the kernel's values"
    for name, expression in kernel.derived:
        names[name] = expression(names)
    return next((constraint.reason for constraint in (*kernel.solves, *kernel.constraints)
                 if not constraint.expression(names)), None)
