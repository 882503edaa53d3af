"""Description: the README.md and launch.json of a folder of built kernels.

launch.json holds everything that a caller in any language needs: `kernels` is a list of objects, one for each kernel of
the folder. Sizes of memory are bytes, times seconds; elements are counted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from seqtune.kernels.devices.element_types import ELEMENT_TYPES
from seqtune.kernels.launches.call import (
    Argument,
    BufferArgument,
    Call,
    CallStep,
    LocalArgument,
    NullArgument,
    ScalarArgument,
    TensorMapArgument,
    WorkspaceArgument,
)
from seqtune.kernels.llvm.launch import Launch
from seqtune.kernels.operations.tensor import Tensors
from seqtune.kernels.version import VERSION

from .chosen import Chosen

Packed: TypeAlias = Mapping[str, tuple[int, Mapping[str, object]]]  # packed input -> its elements; what says the order

README, LAUNCH_JSON = "README.md", "launch.json"
FORMAT = 1  # increase it when names in launch.json change
MOST_SHOWN = 8  # kernels that a README lists
LICENCE = "The files are under the MIT licence, as seqtune is, except for kernels that you wrote yourself."


def readme(chosen: Sequence[Chosen], lines: Sequence[str]) -> bytes:
    """The README of a folder: its kernels, then `lines`, paragraphs on how to compile and run them."""
    device = chosen[0].device
    title = chosen[0].name if len(chosen) == 1 else f"{len(chosen)} kernels for {device.name}"
    kernels = [_about(one) for one in chosen[:MOST_SHOWN]]
    if len(chosen) > MOST_SHOWN:
        kernels.append(f"{len(chosen) - MOST_SHOWN} more kernels stand in `{LAUNCH_JSON}`.")
    machine = f"Device: `{device.name}` ({' '.join(f'{device.model} {device.architecture}'.split())})."
    paragraphs = (f"# {title}", *kernels, machine, *lines,
                  f"`{LAUNCH_JSON}` says in JSON how the kernels are launched. Made by seqtune {VERSION}. {LICENCE}")
    return ("\n\n".join(paragraphs) + "\n").encode()


def _about(chosen: Chosen) -> str:
    """A sentence or two about a kernel."""
    return (f"`{chosen.name}`: `{chosen.brief()}` ({chosen.origin}) for `{chosen.problem.brief()}`. "
            f"{_speed(chosen)}")


def _speed(chosen: Chosen) -> str:
    if chosen.seconds is None:
        return "It was not measured."
    time = f"Measured time: {1e6 * chosen.seconds:,.1f} us"
    if chosen.default_seconds is None:
        return f"{time}."
    ratio = chosen.default_seconds / chosen.seconds
    return f"{time}; the kernel's default takes {1e6 * chosen.default_seconds:,.1f} us ({ratio:.2f} times as long)."


def launch_json(kernels: Sequence[tuple[Chosen, Mapping[str, object]]]) -> bytes:
    """The text of launch.json: for each kernel what is chosen, then its part (`described_call`, `described_launch`)."""
    content = {"format": FORMAT, "seqtune": VERSION,
               "kernels": [{**_described(chosen), **part} for chosen, part in kernels]}
    return (json.dumps(content, indent=1, default=str) + "\n").encode()


def _described(chosen: Chosen) -> dict[str, object]:
    device = chosen.device
    return {**chosen.to_json(), "kernel_version": chosen.kernel.version, "toolchain": device.toolchain,
            "device": {"name": device.name, "model": device.model, "architecture": device.architecture,
                       "instruction_set": device.instruction_set, "threads": device.threads}}


def described_call(call: Call, tensors: Tensors, packed: Packed) -> dict[str, object]:
    """The part of launch.json about a call."""
    return {"buffers": _buffers(tensors, packed),
            "workspaces": {workspace.name: {"type": workspace.dtype, "bytes": workspace.size}
                           for workspace in call.workspaces()},
            "restored_before_each_launch": list(dict.fromkeys((*tensors.restorable(), *call.rewritten))),
            "compiler_options": list(call.source.options),
            "launches": [_described_step(step) for step in call.steps]}


def described_launch(launch: Launch, tensors: Tensors, packed: Packed,
                     entries: Mapping[str, str] | None = None) -> dict[str, object]:
    """The part of launch.json about a launch of an llvm kernel: see `seqtune.kernels.llvm.launch`.

    `entries` has the names of the phases' entries in an object file; None: they have their own.
    """
    names = {phase.entry: phase.entry for phase in launch.phases} if entries is None else entries
    return {"buffers": _buffers(tensors, packed),
            "workspaces": {"workspace": {"type": "fp32", "bytes": 4 * launch.workspace}},
            "entry_arguments": list(launch.arguments),
            "phases": [{"entry": names[phase.entry], "tasks": phase.tasks, "runs": phase.runs}
                       for phase in launch.phases]}


def _buffers(tensors: Tensors, packed: Packed) -> dict[str, dict[str, object]]:
    """The buffers by name: the array's shape and type, and the number of elements that the kernel takes."""
    buffers: dict[str, dict[str, object]] = {}
    for name, tensor in (*tensors.inputs.items(), *tensors.outputs.items()):
        elements, order = packed.get(name, (tensor.size, {}))
        buffers[name] = {"role": "input" if name in tensors.inputs else "output", "type": tensor.dtype,
                         "shape": list(tensor.shape), "elements": elements,
                         "bytes": elements * ELEMENT_TYPES[tensor.dtype].size, **order}
    return buffers


def _described_step(step: CallStep) -> dict[str, object]:
    described: dict[str, object] = {"entry": step.entry, "global": list(step.global_size),
                                    "local": None if step.local_size is None else list(step.local_size)}
    if step.local_size is not None and all(size % wide == 0 for size, wide in zip(
            step.global_size, step.local_size, strict=True)):
        described["groups"] = [size // wide for size, wide in zip(step.global_size, step.local_size, strict=True)]
    return {**described, "shared_bytes": step.shared + step.local_bytes, "cluster": step.cluster,
            "arguments": [_described_argument(argument) for argument in step.arguments]}


def _described_argument(argument: Argument) -> dict[str, object]:
    match argument:
        case BufferArgument(name, dtype):
            return {"kind": "buffer", "name": name, "type": dtype}
        case WorkspaceArgument(name, dtype):
            return {"kind": "workspace", "name": name, "type": dtype}
        case NullArgument(dtype):
            return {"kind": "null", "type": dtype}
        case LocalArgument(size):
            return {"kind": "local", "bytes": size}
        case TensorMapArgument(buffer, sizes, steps, box, swizzle):
            size = ELEMENT_TYPES[buffer.dtype].size
            return {"kind": "tensor map", "name": buffer.name, "type": buffer.dtype, "sizes": list(sizes),
                    "step_bytes": [step * size for step in steps], "box": list(box), "swizzle_bytes": swizzle}
        case ScalarArgument(dtype):
            number = argument.number.item()
            # JSON has neither infinities nor NaN
            return {"kind": "scalar", "type": dtype, "value": number if math.isfinite(number) else str(number),
                    "bytes_little_endian": argument.content.hex()}
