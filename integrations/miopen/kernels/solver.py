"""MIOpen's tunable solvers as kernel families, and the text form of their configurations.

A solver's kernel family is named `miopen.<solver>` and has only the free parameters. The other values that MIOpen
writes are constant, follow from the free ones, or are ignored by the solver (`WrittenField`). Facts are from MIOpen 3.3
(2d1fd997).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from seqtune.errors import FormatError, KernelError
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Configuration, Kernel, Parameter, Setting
from seqtune.kernels.lookup import resolve

BACKEND = "miopen"
PREFIX = f"{BACKEND}."
LONGEST_TEXT = 400  # characters of one configuration as MIOpen writes it

Condition: TypeAlias = tuple[str, str]  # expression, reason


@dataclass(frozen=True, slots=True)
class Tunable:
    """A parameter and, where these are fewer, the values that MIOpen's own tuner tries."""

    name: str
    values: Sequence[int]
    meaning: str
    tried: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class WrittenField:
    """A value that MIOpen writes although it is not a free parameter."""

    name: str
    expression: Expression  # over problem, device, parameters and derived quantities
    ignored: bool = False  # MIOpen recomputes or ignores the value, so it carries no information


@dataclass(frozen=True, slots=True)
class Solver:
    """A tunable solver: its kernel family, and the fields of its text form in order (parameters, or `WrittenField`)."""

    kernel: Kernel
    fields: tuple[str | WrittenField, ...]

    @property
    def name(self) -> str:
        """The solver's name in MIOpen."""
        return self.kernel.name.removeprefix(PREFIX)

    def read(self, text: str) -> dict[str, int | str]:
        """Read the values of a text such as `4,8,4,16`, by name, not checked against the space. Raises FormatError."""
        words = text.split(",") if len(text) <= LONGEST_TEXT else []
        if len(words) != len(self.fields):
            raise FormatError(f"{self.name} has {len(self.fields)} values, not {text!r:.80}")
        values: dict[str, int | str] = {}
        for field, word in zip(self.fields, words, strict=True):
            if not (word.isascii() and word.removeprefix("-").isdigit() and len(word) < 10):
                raise FormatError(f"{self.name}: {word!r:.40} is not a whole number")
            values[field if isinstance(field, str) else field.name] = int(word)
        return values

    def configuration(self, values: Mapping[str, int | str]) -> Configuration:
        """The configuration that the values from `read` describe; values of other fields are left out."""
        return Configuration.of(self.kernel.name, {name: values[name] for name in self.kernel.by_name})

    def write(self, values: Sequence[int | str]) -> str:
        """The text form of the values of all fields, in order; the inverse of `read`."""
        return ",".join(map(str, values))

    def renamed(self, name: str) -> Solver:
        """A solver of another name with the same space."""
        return replace(self, kernel=replace(self.kernel, name=PREFIX + name))


def solver(name: str, fields: str, tunables: Sequence[Tunable], constraints: Iterable[Condition],
           default: Sequence[Setting], *, meaning: str, solves: Iterable[Condition] = (),
           derived: Iterable[tuple[str, str]] = (), prior: Iterable[Condition] = (),
           written: Mapping[str, str] | None = None, ignored: Mapping[str, str] | None = None) -> Solver:
    """Declare a solver.

    `fields` names the values of the text form in order. Fields that are not tunables are given by `written` (checked
    when read) or `ignored`, as expressions. `default` is in the order of the tunables.
    """
    tried = [(f"{tunable.name} in ({', '.join(map(str, tunable.tried))},)", f"the tuner tries no other {tunable.name}")
             for tunable in tunables if tunable.tried]
    kernel = Kernel.of(
        name=PREFIX + name, operation="convnd", meaning=meaning,
        parameters=[Parameter(tunable.name, tuple(tunable.values), tunable.meaning) for tunable in tunables],
        derived=derived, solves=solves, constraints=constraints, prior=[*tried, *prior],
        default={tunable.name: value for tunable, value in zip(tunables, default, strict=True)})
    not_free = {word: WrittenField(word, Expression(text)) for word, text in (written or {}).items()}
    not_free |= {word: WrittenField(word, Expression(text), True) for word, text in (ignored or {}).items()}
    return Solver(kernel, tuple(not_free.get(word, word) for word in fields.split()))


# Conditions on the problem that several solvers share.
FORWARD_OR_DATA = ("direction in ('forward', 'backward_data')", "it goes forward or computes the data gradient")
FORWARD = ("direction == 'forward'", "it goes forward only")
BACKWARD_DATA = ("direction == 'backward_data'", "it computes the data gradient only")
BACKWARD_WEIGHTS = ("direction == 'backward_weights'", "it computes the weight gradient only")
NCHW = ("layout == 'NCHW'", "it reads NCHW only")
TWO_D = ("layout in ('NCHW', 'NHWC')", "it solves 2-D convolutions only")
CHANNELS_SECOND = ("layout in ('NCHW', 'NCDHW')", "channels must be the second axis")
ONE_GROUP = ("groups == 1", "it knows no groups")
NO_BIAS = ("bias == 'no'", "it adds no bias")
POINTWISE = ("r == 1 and s == 1 and pad_h == 0 and pad_w == 0", "its filter is 1x1 without padding")
NO_DILATION = ("dilation_h == 1 and dilation_w == 1", "its filter is not dilated")
LEGACY = ("legacy == 1", "MIOpen runs this deprecated solver on older GPUs only")
GFX9 = ("generation == 9", "its assembly is for gfx9")


def dtypes(*names: str) -> Condition:
    """The condition that the element type is one of these types."""
    return f"dtype in ({', '.join(map(repr, names))},)", f"it computes in {', '.join(names)} only"


# A new solver is one declaration and one line here: its name -> `module:attribute`.
SOLVERS: dict[str, str] = {
    "ConvAsm1x1U": "seqtune.integrations.miopen.kernels.assembly:ASM_1X1U",
    "ConvBiasActivAsm1x1U": "seqtune.integrations.miopen.kernels.assembly:ASM_1X1U_FUSED",
    "ConvAsm1x1UV2": "seqtune.integrations.miopen.kernels.assembly:ASM_1X1U_V2",
    "ConvAsm3x3U": "seqtune.integrations.miopen.kernels.assembly:ASM_3X3U",
    "ConvAsmBwdWrW1x1": "seqtune.integrations.miopen.kernels.assembly:ASM_WEIGHTS_1X1",
    "ConvAsmBwdWrW3x3": "seqtune.integrations.miopen.kernels.assembly:ASM_WEIGHTS_3X3",
    "ConvOclDirectFwd": "seqtune.integrations.miopen.kernels.opencl:DIRECT",
    "ConvOclDirectFwdFused": "seqtune.integrations.miopen.kernels.opencl:DIRECT_FUSED",
    "ConvOclDirectFwd1x1": "seqtune.integrations.miopen.kernels.opencl:DIRECT_1X1",
    "ConvOclBwdWrW2<1>": "seqtune.integrations.miopen.kernels.opencl:WEIGHTS_1",
    "ConvOclBwdWrW2<2>": "seqtune.integrations.miopen.kernels.opencl:WEIGHTS_2",
    "ConvOclBwdWrW2<4>": "seqtune.integrations.miopen.kernels.opencl:WEIGHTS_4",
    "ConvOclBwdWrW2<8>": "seqtune.integrations.miopen.kernels.opencl:WEIGHTS_8",
    "ConvOclBwdWrW2<16>": "seqtune.integrations.miopen.kernels.opencl:WEIGHTS_16",
    "ConvHipImplicitGemmV4R1Fwd": "seqtune.integrations.miopen.kernels.implicit_gemm:V4R1_FORWARD",
    "ConvHipImplicitGemmV4R1WrW": "seqtune.integrations.miopen.kernels.implicit_gemm:V4R1_WEIGHTS",
    "ConvHipImplicitGemmV4R4Fwd": "seqtune.integrations.miopen.kernels.implicit_gemm:V4R4_FORWARD",
    "ConvHipImplicitGemmV4R4WrW": "seqtune.integrations.miopen.kernels.implicit_gemm:V4R4_WEIGHTS",
    "ConvHipImplicitGemmBwdDataV1R1": "seqtune.integrations.miopen.kernels.implicit_gemm:V1R1_DATA",
    "ConvMlirIgemmFwd": "seqtune.integrations.miopen.kernels.implicit_gemm:MLIR_FORWARD",
    "ConvMlirIgemmBwd": "seqtune.integrations.miopen.kernels.implicit_gemm:MLIR_DATA",
    "ConvMlirIgemmWrW": "seqtune.integrations.miopen.kernels.implicit_gemm:MLIR_WEIGHTS",
    "ConvCkIgemmFwdV6r1DlopsNchw": "seqtune.integrations.miopen.kernels.implicit_gemm:CK_V6R1",
    "ConvBinWinogradRxSf2x3": "seqtune.integrations.miopen.kernels.implicit_gemm:WINOGRAD_2X3",
    "ConvBinWinogradRxSf3x2": "seqtune.integrations.miopen.kernels.implicit_gemm:WINOGRAD_3X2",
    "ConvAsmImplicitGemmGTCDynamicFwdXdlopsNHWC": "seqtune.integrations.miopen.kernels.xdlops_tables:FORWARD_ROWS",
    "ConvAsmImplicitGemmGTCDynamicBwdXdlopsNHWC": "seqtune.integrations.miopen.kernels.xdlops_tables:DATA_ROWS",
    "ConvAsmImplicitGemmGTCDynamicWrwXdlopsNHWC": "seqtune.integrations.miopen.kernels.xdlops_tables:WEIGHTS_ROWS",
}
KERNELS: dict[str, str] = {PREFIX + name: f"{reference}.kernel" for name, reference in SOLVERS.items()}


def find_solver(name: str) -> Solver:
    """The solver with this name in MIOpen. Raises KernelError."""
    if name not in SOLVERS:
        raise KernelError(f"no tunable MIOpen solver {name!r:.60}; there are {', '.join(SOLVERS)}")
    value = resolve(SOLVERS[name])
    assert isinstance(value, Solver)
    return value
