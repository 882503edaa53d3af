"""Kernel header: the text of kernel.h, which tells `host.c` and `device.h` what launch.json says of a kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from seqtune.kernels.devices.element_types import ELEMENT_TYPES

from .check import Check, c_array, c_string


def defines(words: Mapping[str, str]) -> str:
    """Macros whose values are texts."""
    return "".join(f"#define {name} {c_string(text)}\n" for name, text in words.items())


def check_text(check: Check) -> str:
    """The reference, and the table of `rules`."""
    reference = "" if check.reference is None else f"{check.reference.c}\n"
    return (f"{reference}#define REFERENCE {'reference_y' if reference else 'NULL'}\n"
            f"enum {{ RULES = {len(check.outputs)} }};\n\n"
            f"static const struct rule rules[] = {{{check.c_rules() or '{0}'}}};\n")


def tables(part: Mapping[str, Any], check: Check) -> str:
    """The tables `abouts`, `buffers` and `launches`; `part` is that of launch.json, whose packings are functions."""
    names = [*part["buffers"], *part["workspaces"]]
    abouts, rows = check.c_arrays(), ""
    for name, buffer in part["buffers"].items():
        rows += (f"    {{{buffer['elements']}, {int(buffer['role'] == 'output')}, "
                 f"{int(name in part['restored_before_each_launch'])}, {buffer.get('packed_by', 'NULL')}}},\n")
    for name, workspace in part["workspaces"].items():
        element = ELEMENT_TYPES[workspace["type"]]
        count = workspace["bytes"] // element.size
        abouts += c_array(name, element.name, count, {}, names)
        rows += f"    {{{count}, 0, 0, NULL}},\n"
    return (f"enum {{ BUFFERS = {len(names)}, LAUNCHES = {len(part['launches'])} }};\n\n"
            f"/* name, type, elements, contents */\nstatic const struct array abouts[BUFFERS] = {{\n{abouts}}};\n\n"
            "/* elements as the kernel takes them, whether it is an output, restored, packing */\n"
            f"static const struct buffer buffers[BUFFERS] = {{\n{rows}}};\n\n{_launches(part['launches'], names)}")


def _launches(launches: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """The table of launches, after those of their arguments; launches with equal ones share a table."""
    numbers: dict[str, int] = {}  # the lines of a table of arguments -> its number
    rows = ""
    for launch in launches:
        lines = "".join(f"    {_argument(argument, names)},\n" for argument in launch["arguments"])
        number = numbers.setdefault(lines or "    {.kind = NULL_ADDRESS}\n", len(numbers))
        sizes, local = _braces([*launch["global"], 1, 1][:3]), _braces([*(launch["local"] or [0, 0, 0]), 1, 1][:3])
        rows += (f'    {{"{launch["entry"]}", {len(launch["global"])}, {sizes}, {local}, {launch["shared_bytes"]}, '
                 f"{launch['cluster']}, {len(launch['arguments'])}, arguments_{number}}},\n")
    text = "".join(f"static const struct argument arguments_{number}[] = {{\n{lines}}};\n\n"
                   for lines, number in numbers.items())
    return f"{text}static const struct launch launches[LAUNCHES] = {{\n{rows}}};\n"


def _argument(argument: Mapping[str, Any], names: Sequence[str]) -> str:
    """The initial value of a `struct argument`."""
    match argument["kind"]:
        case "buffer" | "workspace":
            return f"{{.kind = ADDRESS, .buffer = {names.index(argument['name'])}}}"
        case "tensor map":
            content = ", ".join((argument["type"].upper(), str(len(argument["sizes"])), *(
                _braces(argument[name] or [0]) for name in ("sizes", "step_bytes", "box"))))
            return (f"{{.kind = TENSOR_MAP, .buffer = {names.index(argument['name'])},\n"
                    f"     .map = &(const struct tensor_map){{{content}, {argument['swizzle_bytes']}}}}}")
        case "local":
            return f"{{.kind = LOCAL_MEMORY, .bytes = {argument['bytes']}}}"
        case "scalar":
            number = bytes.fromhex(argument["bytes_little_endian"])
            return (f"{{.kind = NUMBER, .bytes = {len(number)}, .number = {_braces(number)}}} "
                    f"/* {argument['type']} {argument['value']} */")
    return "{.kind = NULL_ADDRESS}"


def _braces(numbers: Iterable[int]) -> str:
    """Numbers as the initial value of an array."""
    return f"{{{', '.join(map(str, numbers))}}}"
