"""CallDeclaration: how a library declares the call of a kernel in OpenCL C or CUDA C, with expressions for its sizes.

Parameters reach the source as preprocessor defines. An argument is written as `x` (a buffer by its name, or an
expression whose value is the name of a buffer), `int n` (a scalar), `local float block_x` or `workspace float n * n`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from seqtune.errors import ExpressionError, FormatError, KernelError

from ..devices.device import Device
from ..devices.element_types import element_type
from ..expression import Expression
from ..kernel import Configuration, Kernel, quantities, source_text
from ..operations.table import operation
from ..operations.tensor import Tensors
from ..problem import Problem
from .c_types import scalar, split_type
from .call import (
    Argument,
    BufferArgument,
    Call,
    CalledImplementation,
    CallStep,
    LocalArgument,
    ScalarArgument,
    WorkspaceArgument,
)
from .implementation import KernelSource, implementation_of

LAUNCH, LAUNCHES = "launch", "launches"  # names in expressions: the index of a launch, and the number of launches
MOST_LAUNCHES = 10_000  # launches of one run; a larger number is more likely a mistake
ONCE = Expression("1")
LARGEST_SIZE = 2**63 - 1  # work-items along an axis
LARGEST_BYTES = 1 << 40  # bytes of a workspace; devices have less
_WARNINGS = ("-w", "-Werror")
_OPTIONS = {  # beginnings of the other options that a library may pass to the compiler; none of them reads a file
    "opencl": ("-cl-", "-D", "-U"),
    "cuda": ("-D", "-U", "-O", "-std=", "--std=", "-use_fast_math", "--use_fast_math", "-fmad=", "--fmad=",
             "-ftz=", "--ftz=", "-prec-div=", "--prec-div=", "-prec-sqrt=", "--prec-sqrt=", "-maxrregcount=",
             "--maxrregcount=", "-lineinfo", "--generate-line-info", "-default-device", "--default-device",
             "-extra-device-vectorization", "--extra-device-vectorization")}


@dataclass(frozen=True, slots=True)
class DeclaredArgument:
    """An argument as a library writes it."""

    kind: str  # "buffer" | "scalar" | "local" | "workspace"
    dtype: str  # "" for a buffer
    expression: Expression

    @classmethod
    def of(cls, text: str) -> DeclaredArgument:
        """Parse an argument. Raises ExpressionError, FormatError."""
        first, _, rest = text.strip().partition(" ")
        if first in ("local", "workspace"):
            dtype, expression = split_type(rest)
            if dtype is None:
                raise FormatError(f"{text!r:.60} names no type: {first} float n")
            return cls(first, dtype, Expression(expression))
        dtype, expression = split_type(text)
        return cls("buffer" if dtype is None else "scalar", dtype or "", Expression(expression))

    def argument(self, index: int, values: Mapping[str, Any], buffers: Mapping[str, BufferArgument]) -> Argument:
        """The argument with this index in the list of a launch. Raises ExpressionError, FormatError."""
        if self.kind == "buffer":
            text = self.expression.text
            is_name = text.isidentifier() and text not in values
            name = text if is_name else self.expression({**values, **{name: name for name in buffers}})
            if name not in buffers:
                raise FormatError(f"argument {self.expression.text!r:.60} names no input or output "
                                  f"(there are {', '.join(buffers) or 'none'}) and has no type (int n)")
            return buffers[name]
        if self.kind == "scalar":
            return ScalarArgument(self.dtype, scalar(self.dtype, self.expression(values)).tobytes())
        count = whole(self.expression, values, LARGEST_BYTES // element_type(self.dtype).size)
        if self.kind == "local":
            return LocalArgument(count * element_type(self.dtype).size)
        return WorkspaceArgument(f"workspace {index + 1}", self.dtype, count)


@dataclass(frozen=True, slots=True)
class CallDeclaration:
    """A call as a library declares it. `sizes` are work-items, or numbers of groups if `counts_groups`."""

    language: str  # "opencl" | "cuda"
    text: str
    entry: str
    arguments: tuple[DeclaredArgument, ...]
    sizes: tuple[Expression, ...]
    local: tuple[Expression, ...] | None
    counts_groups: bool = False
    launches: Expression = ONCE
    derived: tuple[tuple[str, Expression], ...] = ()  # quantities of the kernel
    defines: tuple[tuple[str, Expression], ...] = ()  # macros beside those of the parameters
    options: tuple[str, ...] = ()

    @classmethod
    def of(cls, language: str, text: str, entry: str, arguments: Iterable[str], *,
           global_size: Iterable[str] | None = None, groups: Iterable[str] | None = None,
           local: Iterable[str] | None = None, launches: str = "1",
           derived: tuple[tuple[str, Expression], ...] = (), defines: Mapping[str, str] | None = None,
           options: Iterable[str] = ()) -> CallDeclaration:
        """Make a declaration from texts. Raises ExpressionError, FormatError."""
        sizes = groups if global_size is None else global_size
        if sizes is None or (global_size is not None and groups is not None):
            raise FormatError("give either global (work-items) or groups (work-groups)")
        if local is None and (language == "cuda" or groups is not None):
            raise FormatError("local is missing: the size of a work-group")
        axes = tuple(map(Expression, sizes))
        group = None if local is None else tuple(map(Expression, local))
        if not 1 <= len(axes) <= 3 or (group is not None and len(group) != len(axes)):
            raise FormatError("global (or groups) and local have one to three axes, both the same number")
        return cls(language, text, entry, tuple(map(DeclaredArgument.of, arguments)), axes, group,
                   groups is not None, Expression(launches), derived,
                   tuple((name, Expression(value)) for name, value in (defines or {}).items()),
                   checked_options(language, options))

    @property
    def includes(self) -> str:
        """The work that a timing includes."""
        return "the launches of its entry; arrays are on the device before"

    def call(self, problem: Problem, device: Device, configuration: Configuration,
             tensors: Tensors | None = None) -> Call:
        """The call of a configuration on the problem's inputs and outputs, or on others.

        Raises ExpressionError, FormatError.
        """
        values = quantities(self.derived, problem, device, configuration)
        arrays = operation(problem.type).tensors(problem) if tensors is None else tensors
        named = {name: BufferArgument(name, tensor.dtype)
                 for name, tensor in (*arrays.inputs.items(), *arrays.outputs.items())}
        launches = values[LAUNCHES] = whole(self.launches, values, MOST_LAUNCHES)
        steps = []
        for launch in range(launches):
            values[LAUNCH] = launch
            steps.append(self._step(values, named))
        text = self._defines(configuration, values) + self.text
        return Call(KernelSource(text, self.options), tuple(steps),
                    rewritten_inputs(self.arguments, arrays.inputs, arrays.outputs))

    def _step(self, values: Mapping[str, Any], buffers: Mapping[str, BufferArgument]) -> CallStep:
        sizes = tuple(whole(size, values, LARGEST_SIZE) for size in self.sizes)
        local = None if self.local is None else tuple(whole(size, values, LARGEST_SIZE) for size in self.local)
        if local is not None and self.counts_groups:
            sizes = tuple(count * size for count, size in zip(sizes, local, strict=True))
        arguments = (argument.argument(index, values, buffers) for index, argument in enumerate(self.arguments))
        return CallStep(self.entry, tuple(arguments), sizes, local)

    def _defines(self, configuration: Configuration, values: Mapping[str, Any]) -> str:
        """The `#define` lines of the parameters and of `defines`.

        They stand in the text, because options (-D) would rename arguments in the compiler's own headers as well.
        """
        defines = {**dict(configuration.settings), **{name: text(values) for name, text in self.defines}}
        return "".join(f"#define {name} {checked_word(name, value)}\n" for name, value in defines.items())


def rewritten_inputs(arguments: Iterable[DeclaredArgument], inputs: Iterable[str],
                     outputs: Collection[str]) -> tuple[str, ...]:
    """The inputs that an argument names beside an output (`x if launch % 2 == 0 else y`): launches may change them."""
    named = [argument.expression.names for argument in arguments if argument.kind == "buffer"]
    swapped = {name for names in named if not set(outputs).isdisjoint(names) for name in names}
    return tuple(name for name in inputs if name in swapped)


@dataclass(frozen=True)
class Sections:
    """The implementation of a declared kernel: a CallDeclaration or CommandDeclaration for each backend."""

    by_backend: Mapping[str, Any]

    @property
    def includes(self) -> str:
        """The work that a timing includes, on each backend."""
        return "; ".join(f"{backend}: {section.includes}" for backend, section in self.by_backend.items())


def code_for(kernel: Kernel, backend: str) -> object:
    """The code of a kernel for a backend: its implementation, or the section for the backend.

    A backend without a section of its name gets the kernel's only section, if the kernel names the backend. Raises
    KernelError.
    """
    code: object = implementation_of(kernel)
    if not isinstance(code, Sections):
        return code
    if backend in code.by_backend:
        return code.by_backend[backend]
    if backend in kernel.backends and len(code.by_backend) == 1:
        return next(iter(code.by_backend.values()))
    raise KernelError(f"{kernel.name} runs on {', '.join(code.by_backend)}, not on {backend}")


def call_of(kernel: Kernel, problem: Problem, device: Device, configuration: Configuration) -> Call:
    """The call of a configuration of our kernel or of a library's. Raises KernelError, ExpressionError, FormatError."""
    code = code_for(kernel, device.backend)
    if not isinstance(code, CalledImplementation):
        raise KernelError(f"{kernel.name} has no code that {device.backend} can call")
    return code.call(problem, device, configuration)


def whole(expression: Expression, values: Mapping[str, Any], most: int) -> int:
    """The value of an expression if it is a whole number from 1 to `most`. Raises FormatError, ExpressionError."""
    value = expression(values)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ExpressionError(f"{expression.text[:60]!r} is {value!r:.40}, not a whole number")
    if not 1 <= value <= most:
        raise ExpressionError(f"{expression.text[:60]!r} is {value}, outside 1..{most}")
    return value


def checked_word(name: str, value: Any) -> str:
    """The value of a macro as text. Raises FormatError if it is not one word."""
    text = source_text(value)
    if not text or any(letter.isspace() or letter in "\"'\\`$;&|<>" or not letter.isprintable() for letter in text):
        raise FormatError(f"{text!r:.60} cannot be the value of the macro {name}")
    return text


def checked_options(language: str, options: Iterable[str]) -> tuple[str, ...]:
    """The compiler's options. Raises FormatError for one that could read a file or is not known to be harmless."""
    allowed, checked = _OPTIONS[language], tuple(options)
    for option in checked:
        harmless = option in _WARNINGS or option.startswith(allowed)
        if not harmless or any(letter.isspace() or letter in "\"'\\`" for letter in option):
            raise FormatError(f"the compiler's option {option!r:.60} is not allowed; {' '.join(_WARNINGS)} and those "
                              f"that begin with {' '.join(allowed)} are (files beside the source are found without -I)")
    return checked
