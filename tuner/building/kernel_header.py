"""Kernel header: the text of kernel.h, which tells `host.c` and `device.h` of one kernel: buffers and launches."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from seqtune.kernels.devices.element_types import ELEMENT_TYPES
from seqtune.kernels.launches.call import (
    Argument,
    BufferArgument,
    Call,
    CallStep,
    LocalArgument,
    ScalarArgument,
    TensorMapArgument,
    WorkspaceArgument,
)
from seqtune.kernels.operations.tensor import Tensors

from .check import CheckContent
from .packing import PackedText


def c_string(text: str) -> str:
    """A text as a constant in C. JSON's escapes of ASCII are C's, too."""
    return json.dumps(text.encode("ascii", "replace").decode())


def defines(words: Mapping[str, str]) -> str:
    """Macros whose values are texts."""
    return "".join(f"#define {name} {c_string(text)}\n" for name, text in words.items())


def buffer_types(call: Call, tensors: Tensors) -> dict[str, str]:
    """The element types of all inputs and outputs as the kernel takes them."""
    taken = call.buffers()
    return {name: taken[name].dtype if name in taken else tensor.dtype
            for name, tensor in (*tensors.inputs.items(), *tensors.outputs.items())}


def tables(call: Call, tensors: Tensors, packings: Mapping[str, PackedText], contents: Mapping[str, CheckContent],
           restored: Iterable[str]) -> str:
    """The packings, then the tables `buffers` and `launches`."""
    types, kept = buffer_types(call, tensors), set(restored)
    names = list(types)
    lines = []
    for name, dtype in types.items():
        tensor = tensors.inputs.get(name) or tensors.outputs[name]
        packed = packings.get(name)
        role = "INPUT" if name in tensors.inputs else "OUTPUT"
        lines.append(f'    {{"{name}", {role}, {dtype.upper()}, {tensor.size}, '
                     f"{tensor.size if packed is None else packed.elements}, {contents[name].c(names)}, "
                     f"{int(name in kept)}, {'NULL' if packed is None else f'packed_{name}'}}},\n")
    workspaces: dict[str, WorkspaceArgument] = {}
    for workspace in call.workspaces():
        workspaces[workspace.name] = max(workspace, workspaces.get(workspace.name, workspace), key=lambda one: one.size)
    for workspace in workspaces.values():
        poison = CheckContent("poison", ELEMENT_TYPES[workspace.dtype].poison)
        lines.append(f'    {{"{workspace.name}", WORKSPACE, {workspace.dtype.upper()}, {workspace.count}, '
                     f"{workspace.count}, {poison.c(names)}, 0, NULL}},\n")
    numbers = {name: number for number, name in enumerate([*names, *workspaces])}
    wrappers = "".join(
        f"{text.c}\nstatic void packed_{name}(const void *array, void *packed)\n{{\n    {function_of(name)}(array, "
        "packed);\n}\n\n" for name, text in packings.items())
    return (f"enum {{ BUFFERS = {len(numbers)}, LAUNCHES = {len(call.steps)} }};\n\n{wrappers}"
            "/* name, role, type, elements, elements as the kernel takes them, contents, restored, packing */\n"
            f"static const struct buffer buffers[BUFFERS] = {{\n{''.join(lines)}}};\n\n"
            f"{_launches(call.steps, numbers)}")


def function_of(name: str) -> str:
    """The name of the function that packs an input."""
    return f"pack_{name}"


def _launches(steps: Sequence[CallStep], numbers: Mapping[str, int]) -> str:
    """The table of launches, after those of their arguments; launches with equal ones share a table."""
    lists = {arguments: number for number, arguments in enumerate(dict.fromkeys(step.arguments for step in steps))}
    maps = {argument: number for number, argument in enumerate(dict.fromkeys(
        argument for arguments in lists for argument in arguments if isinstance(argument, TensorMapArgument)))}
    text = ""
    if maps:
        text = f"static const struct tensor_map maps[] = {{\n{''.join(map(_map, maps))}}};\n\n"
    for arguments, number in lists.items():
        lines = "".join(f"    {_argument(argument, numbers, maps)},\n" for argument in arguments)
        lines = lines or "    {.kind = NULL_ADDRESS}\n"
        text += f"static const struct argument arguments_{number}[] = {{\n{lines}}};\n\n"
    rows = "".join(f"    {_step(step, lists[step.arguments])},\n" for step in steps)
    return f"{text}static const struct launch launches[LAUNCHES] = {{\n{rows}}};\n\n"


def _step(step: CallStep, arguments: int) -> str:
    sizes = [*step.global_size, 1, 1][:3]
    local = [0, 0, 0] if step.local_size is None else [*step.local_size, 1, 1][:3]
    numbers = ["{" + ", ".join(map(str, axes)) + "}" for axes in (sizes, local)]
    return (f'{{"{step.entry}", {len(step.global_size)}, {numbers[0]}, {numbers[1]}, '
            f"{step.shared + step.local_bytes}, {step.cluster}, {len(step.arguments)}, arguments_{arguments}}}")


def _argument(argument: Argument, numbers: Mapping[str, int], maps: Mapping[TensorMapArgument, int]) -> str:
    match argument:
        case BufferArgument(name) | WorkspaceArgument(name):
            return f"{{.kind = ADDRESS, .buffer = {numbers[name]}}}"
        case TensorMapArgument(buffer):
            return f"{{.kind = TENSOR_MAP, .buffer = {numbers[buffer.name]}, .map = &maps[{maps[argument]}]}}"
        case LocalArgument(size):
            return f"{{.kind = LOCAL_MEMORY, .bytes = {size}}}"
        case ScalarArgument():
            return f"{{.kind = NUMBER, .bytes = {len(argument.content)}, .number.{_number(argument)}}}"
    return "{.kind = NULL_ADDRESS}"


def _number(argument: ScalarArgument) -> str:
    """A member of `union number` and its value."""
    if argument.dtype in ("fp16", "bf16"):
        return f"uint16 = {int.from_bytes(argument.content, 'little')}"
    value = argument.number.item()
    if isinstance(value, float):
        return f"{argument.dtype} = {value.hex()}{'f' if argument.dtype == 'fp32' else ''}"
    unsigned = "u" if argument.dtype.startswith("u") else ""
    least = value == -(1 << 63)
    return f"{argument.dtype} = {'INT64_MIN' if least else f'{value}{unsigned}'}"


def _map(argument: TensorMapArgument) -> str:
    size = ELEMENT_TYPES[argument.buffer.dtype].size
    sizes, steps, box = ("{" + ", ".join(map(str, numbers)) + "}" for numbers in (
        argument.sizes, [step * size for step in argument.steps], argument.box))
    return (f"    {{{argument.buffer.dtype.upper()}, {len(argument.sizes)}, {sizes}, {steps or '{0}'}, {box}, "
            f"{argument.swizzle}}},\n")
