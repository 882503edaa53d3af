"""LibraryDocument: the declaration of a library, as a TOML file or Python code gives it, checked by pydantic.

The models check the form: names, types and sizes. `declared_operation` and `declared_kernel` check the meaning when
they make operations and kernels from them. All expressions are texts of `seqtune.kernels.expression.Expression`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator

from seqtune.errors import shown

from ..arithmetic import LARGEST_NUMBER
from ..kernel import MOST_VALUES, Setting, is_setting
from ..launches.c_types import DECLARABLE
from .document_part import CName, DocumentPart, ExpressionText, FamilyName, LowerName, Text, Whole, named, spelled

LONGEST_SOURCE = 1_000_000  # characters of a kernel's text
MOST_ARGUMENTS = 100



def _declarable(dtype: str) -> str:
    if dtype not in DECLARABLE:
        raise ValueError(f"there is no element type {dtype!r:.40}; there are {', '.join(DECLARABLE)}")
    return dtype


DeclaredType: TypeAlias = Annotated[str, AfterValidator(_declarable)]
Line: TypeAlias = Annotated[str, Field(min_length=1, max_length=2000)]


class InputDocument(DocumentPart):
    """An array that the kernel reads: its shape (expressions separated by commas), element type and contents."""

    shape: ExpressionText
    dtype: DeclaredType = "fp32"
    # normal, uniform, "uniform 0..9", "uniform seed 3", zeros, ones, index, a number, or a .npy file
    values: int | float | Line = "normal"
    restore: bool = False  # whether kernels change it, so that it must be restored before each launch


class OutputDocument(DocumentPart):
    """An array that the kernel writes. `values` are its contents at the start; without them it is poisoned."""

    shape: ExpressionText
    dtype: DeclaredType = "fp32"
    tolerance: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None  # see `Tensor`
    check: Literal["elements", "sum"] = "elements"  # compared with the expected output: every element, or their sum
    values: int | float | Line | None = None  # as for an input, or "copy of x", where x is an input
    restore: bool = True  # whether `values` are restored before each launch, if the check's launch changed them


class SourceSection(DocumentPart):
    """A kernel in OpenCL C or CUDA C, its arguments and its launch."""

    source: Line | None = None  # a file
    text: Annotated[str, Field(min_length=1, max_length=LONGEST_SOURCE)] | None = None
    entry: CName
    arguments: list[Line] = Field(default=[], max_length=MOST_ARGUMENTS)
    global_: list[ExpressionText] | None = Field(default=None, alias="global", min_length=1, max_length=3)
    groups: list[ExpressionText] | None = Field(default=None, min_length=1, max_length=3)
    local: list[ExpressionText] | None = Field(default=None, min_length=1, max_length=3)
    launches: ExpressionText = "1"  # number of launches of the entry; scalars may read `launch`
    defines: dict[CName, ExpressionText] = Field(default={}, max_length=MOST_ARGUMENTS)
    options: list[Line] = Field(default=[], max_length=MOST_ARGUMENTS)


class CommandSection(DocumentPart):
    """A program that runs a configuration once and prints its seconds as JSON."""

    run: list[Line] = Field(min_length=1, max_length=MOST_ARGUMENTS)
    build: list[Line] | None = Field(default=None, min_length=1, max_length=MOST_ARGUMENTS)
    repeats: Literal["ours", "theirs"] = "ours"
    timeout: Annotated[float, Field(gt=0, le=3600)] = 10.0  # seconds
    memory: Annotated[int, Field(ge=1_000_000, le=1 << 50)] = 4_000_000_000  # bytes


MOST_NAMES = 200  # features, parameters, derived quantities or conditions of one declaration
MOST_KERNELS = 200
MOST_OPERATIONS = 100

_WORD = spelled("[A-Za-z0-9_.,:+-]+", "a word of letters, digits and _.,:+-")


def _number_or_word(value: Any) -> int | str:
    """Check that a value is a whole number of 64 bits or a word."""
    if isinstance(value, str):
        return _WORD(value)
    if type(value) is not int or abs(value) > LARGEST_NUMBER:
        raise ValueError(f"{shown(value)} is not a whole number of 64 bits or a word")
    return value


def _reasons(value: Any) -> Any:
    """Give conditions that are listed without reasons their text as the reason."""
    if isinstance(value, list):
        if not all(isinstance(condition, str) for condition in value):
            raise ValueError("conditions are listed as texts")
        if len(set(value)) < len(value):
            raise ValueError("a condition is listed twice")
        return {condition: condition for condition in value}
    return value


def _parameter_value(value: Any) -> Setting:
    """Check a value of a parameter, which may be the empty word where `declared_kernel` allows that."""
    if value == "":
        return ""
    if isinstance(value, str):
        return _WORD(value)
    if not is_setting(value):
        raise ValueError(f"{shown(value)} is no value of a parameter: a number of at most 64 bits, a boolean or a word")
    return value


NumberOrWord: TypeAlias = Annotated[int | str, PlainValidator(_number_or_word)]
ParameterValue: TypeAlias = Annotated[Setting, PlainValidator(_parameter_value)]


class FeatureDocument(DocumentPart):
    """A feature of a problem: a whole number, a number, or one of `choices`, which are all words or all whole numbers.

    Without a default it is required.
    """

    meaning: Text = ""
    unit: Text = ""
    default: int | float | str | None = None
    low: Whole = 1
    high: Whole | None = None
    choices: list[NumberOrWord] = Field(default=[], max_length=MOST_NAMES)
    number: bool = False


class ParameterDocument(DocumentPart):
    """A tuning parameter with its values."""

    values: list[ParameterValue] = Field(min_length=1, max_length=MOST_VALUES)
    meaning: Text = ""


Features: TypeAlias = dict[LowerName, Annotated[FeatureDocument, BeforeValidator(named("meaning", str))]]
Parameters: TypeAlias = dict[CName, Annotated[ParameterDocument, BeforeValidator(named("values", list))]]
Quantities: TypeAlias = Annotated[dict[CName, ExpressionText], Field(max_length=MOST_NAMES)]
Conditions: TypeAlias = Annotated[dict[str, Text], Field(max_length=MOST_NAMES), BeforeValidator(_reasons)]
Inputs: TypeAlias = dict[CName, Annotated[InputDocument, BeforeValidator(named("shape", str, int))]]
Outputs: TypeAlias = dict[CName, Annotated[OutputDocument, BeforeValidator(named("shape", str, int))]]


class OperationDocument(DocumentPart):
    """A kind of work: the features of its problems, the sizes derived from them, and what its kernels read and write.
    """

    meaning: Text = ""
    features: Features = Field(min_length=1, max_length=MOST_NAMES)
    derived: Quantities = Field(default={})
    rules: Conditions = Field(default={})
    sizes: list[str] | None = Field(default=None, max_length=MOST_NAMES)
    example: Text | None = None
    inputs: Inputs = Field(default={}, max_length=MOST_NAMES)
    outputs: Outputs = Field(default={}, max_length=MOST_NAMES)
    reference: Text | None = None  # "module:function"
    expected: dict[CName, Text] | None = None  # name of an output -> .npy file


class KernelDocument(DocumentPart):
    """A kernel: its parameters, the conditions between them, and one section for each way to run it."""

    operation: Text | None = None
    meaning: Text = ""
    parameters: Parameters = Field(min_length=1, max_length=MOST_NAMES)
    derived: Quantities = Field(default={})
    solves: Conditions = Field(default={})
    constraints: Conditions = Field(default={})
    default: dict[CName, ParameterValue] = Field(default={})
    version: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    backends: list[LowerName] | None = Field(
        default=None, min_length=1, max_length=20)
    opencl: SourceSection | None = None
    cuda: SourceSection | None = None
    command: CommandSection | None = None
    implementation: Text | None = None  # "module:OBJECT"

    def sections(self) -> dict[str, SourceSection | CommandSection]:
        """The run sections, by backend."""
        sections = {"opencl": self.opencl, "cuda": self.cuda, "command": self.command}
        return {backend: section for backend, section in sections.items() if section is not None}


class LibraryDocument(DocumentPart):
    """A library: a set of kernels, and the operations that it declares."""

    name: FamilyName
    meaning: Text = ""
    checkpoint: Text | None = None  # folder beside the file
    operations: dict[LowerName, OperationDocument] = Field(default={}, max_length=MOST_OPERATIONS)
    kernels: dict[FamilyName, KernelDocument] = Field(min_length=1, max_length=MOST_KERNELS)
