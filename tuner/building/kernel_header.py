"""Kernel header: the text of kernel.h, which tells `host.c` and `device.h` of one kernel: buffers and launches."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

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

from .check import Check, CheckContent, c_array
from .description import restored_arrays
from .packing import PackedText


def c_string(text: str) -> str:
    """A text as a constant in C. JSON's escapes of ASCII are C's, too."""
    return json.dumps(text.encode("ascii", "replace").decode())


def defines(words: Mapping[str, str]) -> str:
    """Macros whose values are texts."""
    return "".join(f"#define {name} {c_string(text)}\n" for name, text in words.items())


def check_text(check: Check) -> str:
    """The reference, and the table of `rules`."""
    reference = "" if check.reference is None else f"{check.reference.c}\n"
    return (f"{reference}#define REFERENCE {'reference_y' if reference else 'NULL'}\n"
            f"enum {{ RULES = {len(check.rules)} }};\n\n"
            f"static const struct rule rules[] = {{{check.c_rules() or '{0}'}}};\n\n")


def tables(call: Call, tensors: Tensors, check: Check, packings: Mapping[str, PackedText]) -> str:
    """The packings, then the tables `abouts`, `buffers` and `launches`."""
    names = (*tensors.names(), *(workspace.name for workspace in call.workspaces()))
    abouts, rows, restored = check.c_arrays(), "", restored_arrays(call, tensors)
    for name, tensor in (*tensors.inputs.items(), *tensors.outputs.items()):
        function, elements = (function_of(name), packings[name].elements) if name in packings else ("NULL", tensor.size)
        rows += f"    {{{elements}, {int(name in tensors.outputs)}, {int(name in restored)}, {function}}},\n"
    for workspace in call.workspaces():
        poison = CheckContent("poison", ELEMENT_TYPES[workspace.dtype].poison)
        abouts += c_array(workspace.name, workspace.dtype, workspace.count, poison.c([]))
        rows += f"    {{{workspace.count}, 0, 0, NULL}},\n"
    functions = "".join(f"{text.c}\n" for text in packings.values())
    return (f"enum {{ BUFFERS = {len(names)}, LAUNCHES = {len(call.steps)} }};\n\n{functions}"
            f"/* name, type, elements, contents */\nstatic const struct array abouts[BUFFERS] = {{\n{abouts}}};\n\n"
            "/* elements as the kernel takes them, whether it is an output, restored, packing */\n"
            f"static const struct buffer buffers[BUFFERS] = {{\n{rows}}};\n\n{_launches(call.steps, names)}")


def function_of(name: str) -> str:
    """The name of the function that packs an input."""
    return f"pack_{name}"


def _launches(steps: Sequence[CallStep], names: Sequence[str]) -> str:
    """The table of launches, after those of their arguments; launches with equal ones share a table."""
    lists = {arguments: number for number, arguments in enumerate(dict.fromkeys(step.arguments for step in steps))}
    maps = {argument: number for number, argument in enumerate(dict.fromkeys(
        argument for arguments in lists for argument in arguments if isinstance(argument, TensorMapArgument)))}
    text = ""
    if maps:
        text = f"static const struct tensor_map maps[] = {{\n{''.join(map(_map, maps))}}};\n\n"
    for arguments, number in lists.items():
        lines = "".join(f"    {_argument(argument, names, maps)},\n" for argument in arguments)
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


def _argument(argument: Argument, names: Sequence[str], maps: Mapping[TensorMapArgument, int]) -> str:
    match argument:
        case BufferArgument(name) | WorkspaceArgument(name):
            return f"{{.kind = ADDRESS, .buffer = {names.index(name)}}}"
        case TensorMapArgument(buffer):
            return f"{{.kind = TENSOR_MAP, .buffer = {names.index(buffer.name)}, .map = &maps[{maps[argument]}]}}"
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
