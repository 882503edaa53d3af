"""Called text: the C99 functions of a called kernel, their header, their check, and a program that calls them.

`templates/called.h` and `templates/called.c` are the same for all languages; `opencl.c` and `cuda.c` open a device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from seqtune.kernels.libraries.declared_kernel import RESERVED_WORDS
from seqtune.kernels.operations.table import operation

from .c_language import C_TYPES, array_line, c_array
from .check import Check
from .check_header import CheckedKernel, check_header
from .chosen import Chosen, filled

# Words that no parameter may have: those of C and C++, and names that the functions of called.c use.
_RESERVED = RESERVED_WORDS | {"address", "buffers", "code", "copy_in", "finish", "given", "i", "keep", "kept",
                              "launch_all", "read_memory"}


@dataclass(frozen=True, slots=True)
class Host:
    """The interface of a device in C."""

    memory: str  # the type of an address of its memory
    handles: str  # declarations of its types
    parameters: str  # of the function that creates a kernel
    arguments: str  # the names of these
    default: str  # their values in a program that has no device of its own; `folder` is that of the check's files
    created: str  # a sentence on what they are


@dataclass(frozen=True)
class CalledText:
    """The texts of one kernel."""

    chosen: Chosen
    check: Check
    host: Host
    driver: str  # the functions of its device
    macros: str  # what these need
    part: Mapping[str, Any]  # of launch.json
    packings: Sequence[str]  # functions, which the part names

    def header(self) -> str:
        """The text of NAME.h."""
        constant = self._constant
        pack = constant and (f"/* Copies {constant} to the device, in the kernel's order. It stays there: NULL stands "
                             f"for it in later calls. */\n{self._pack_head};\n")
        return filled("called.h", {**self._words, "pack": pack})

    def source(self) -> str:
        """The text of NAME.c."""
        pack = self._constant and (f"{self._pack_head}\n{{\n    return !kernel || !kernel->is_whole || copy_in(kernel, "
                                   f"CONSTANT, {self._parameters[self._constant]});\n}}\n\n")
        return filled("called.c", {**self._words, "pack": pack, "driver": self.driver,
                                   "tables": "\n".join([self.macros, *self.packings, self._tables()])})

    def check_header(self) -> str:
        """The text of check.h: it runs the kernel on plain arrays, and again with the constant on the device."""
        name, arrays = self.chosen.name, {each: f"arrays[{number}]" for number, each in enumerate(self.check.arrays)}
        run = filled("called_run.c", {
            "name": name, "create": self.host.default.format(folder="folder"), "plain": ", ".join(arrays.values()),
            **self._calls("the_kernel", arrays, "!", " && ")})
        return check_header(name, [CheckedKernel(self.chosen, self.check, run)], 2,
                            f"{name}_device(the_kernel)", f"{name}_free(the_kernel)")

    def example(self) -> str:
        """A program that calls the kernel on plain arrays."""
        name, words = self.chosen.name, self._parameters
        arrays = [f"{C_TYPES[tensor.dtype]} {words[each]}[{' * '.join(map(str, tensor.shape)) or 1}]"
                  for each, tensor in self.check.arrays.items()]
        return filled("called_example.c", {
            "name": name, "create": self.host.default.format(folder='"."'), "arrays": ";\n    static ".join(arrays),
            **self._calls("kernel", words, "", " || ")})

    def _calls(self, kernel: str, words: Mapping[str, str], sign: str, joint: str) -> dict[str, str]:
        """The call that packs the constant, if there is one, and the arguments of calls after it."""
        constant = self._constant
        return {"pack": constant and f"{sign}{self.chosen.name}_pack({kernel}, {words[constant]}){joint}",
                "kept": ", ".join("NULL" if each == constant else word for each, word in words.items())}

    @cached_property
    def _constant(self) -> str:
        """The operand that stays on the device; empty without one."""
        constant = operation(self.chosen.problem.type).constant
        return constant if constant is not None and constant in self.check.arrays else ""

    @cached_property
    def _changed(self) -> set[str]:
        """The arrays whose contents the kernel changes."""
        return {*self.part["restored_before_each_launch"], *(self.check.contents.keys() & self.check.tensors.outputs)}

    @cached_property
    def _parameters(self) -> dict[str, str]:
        """The names of the arrays as parameters in C."""
        return {name: f"{name}_" if name in _RESERVED else name for name in self.check.arrays}

    @property
    def _pack_head(self) -> str:
        return f"int {self.chosen.name}_pack(struct {self.chosen.name} *kernel, {self._plain(self._constant)})"

    def _plain(self, name: str) -> str:
        """The parameter for an array."""
        constness = "const " if name in self.check.tensors.inputs else ""
        return f"{constness}{C_TYPES[self.check.arrays[name].dtype]} *{self._parameters[name]}"

    @cached_property
    def _words(self) -> dict[str, str]:
        """The words of the templates."""
        name, host, words = self.chosen.name, self.host, self._parameters
        moved = {array: word for array, word in words.items() if array != self._constant}
        remarks = dict.fromkeys(self._changed, ", which the kernel changes")
        return {"name": name, "problem": self.chosen.problem.key, "guard": f"{name.upper()}_H",
                "configuration": self.chosen.brief().replace("*/", "* /"),
                "arrays": "\n".join(array_line(array, tensor) + remarks.get(array, "")
                                    for array, tensor in self.check.arrays.items()),
                "handles": host.handles, "created": host.created.format(name=name),
                "create_parameters": host.parameters, "create_arguments": host.arguments,
                "plain": ", ".join(map(self._plain, words)), "names": ", ".join(words.values()),
                "memories": ", ".join(f"{host.memory}{word}" for word in moved.values()),
                "given": ", ".join(moved.get(array, "0") for array in words),
                "nothing": ", ".join("0" for _ in moved)}

    def _tables(self) -> str:
        """The tables `buffers` and `launches`."""
        part, rows = self.part, ""
        names = [*part["buffers"], *part["workspaces"]]
        for name, buffer in part["buffers"].items():
            role = "READ" if buffer["role"] == "input" else "CHANGED" if name in self._changed else "WRITTEN"
            rows += f'    {{"{name}", {buffer["bytes"]}, {role}, {buffer.get("packed_by", "NULL")}}},\n'
        for name, workspace in part["workspaces"].items():
            rows += f'    {{"{name}", {workspace["bytes"]}, WORKSPACE, NULL}},\n'
        constant = names.index(self._constant) if self._constant else -1
        return (f"enum {{ ARRAYS = {len(part['buffers'])}, BUFFERS = {len(names)}, LAUNCHES = {len(part['launches'])}, "
                f"CONSTANT = {constant} }};\n\n"
                f"static const struct buffer buffers[BUFFERS] = {{\n{rows}}};\n\n{_launches(part['launches'], names)}")


def _launches(launches: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """The table of launches, after those of their arguments; launches with equal ones share a table."""
    numbers: dict[str, int] = {}  # the lines of a table of arguments -> its number
    rows = ""
    for launch in launches:
        lines = "".join(f"    {_argument(argument, names)},\n" for argument in launch["arguments"])
        number = numbers.setdefault(lines or "    {.kind = NULL_ADDRESS}\n", len(numbers))
        sizes, local = c_array([*launch["global"], 1, 1][:3]), c_array([*(launch["local"] or [0, 0, 0]), 1, 1][:3])
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
                c_array(argument[name] or [0]) for name in ("sizes", "step_bytes", "box"))))
            return (f"{{.kind = TENSOR_MAP, .buffer = {names.index(argument['name'])},\n"
                    f"     .map = &(const struct tensor_map){{{content}, {argument['swizzle_bytes']}}}}}")
        case "local":
            return f"{{.kind = LOCAL_MEMORY, .bytes = {argument['bytes']}}}"
        case "scalar":
            number = bytes.fromhex(argument["bytes_little_endian"])
            return (f"{{.kind = NUMBER, .bytes = {len(number)}, .number = {c_array(number)}}} "
                    f"/* {argument['type']} {argument['value']} */")
    return "{.kind = NULL_ADDRESS}"
