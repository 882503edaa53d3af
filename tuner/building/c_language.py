"""C language: element types, constants and initial values in C99."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from seqtune.kernels.devices.element_types import ELEMENT_TYPES
from seqtune.kernels.operations.tensor import Tensor

_FLOATS = {"float32": "float", "float64": "double", "float16": "uint16_t"}
C_TYPES = {name: _FLOATS.get(element.numpy, f"{element.numpy}_t") for name, element in ELEMENT_TYPES.items()}


def c_string(text: str) -> str:
    """A text as a constant. JSON's escapes of ASCII are C's, too; two question marks would begin a trigraph."""
    return re.sub(r"(?<=\?)\?", r"\\?", json.dumps(text.encode("ascii", "replace").decode()))


def defines(words: Mapping[str, str]) -> str:
    """Macros whose values are texts."""
    return "".join(f"#define {name} {c_string(text)}\n" for name, text in words.items())


def c_array(values: Iterable[object]) -> str:
    """The initial value of an array."""
    return f"{{{', '.join(map(str, values))}}}"


def c_struct(**fields: object) -> str:
    """The initial value of a struct; fields that are left out are 0."""
    return c_array(f".{name} = {value}" for name, value in fields.items())


def array_line(name: str, tensor: Tensor) -> str:
    """A line about an array in a comment of a header."""
    encoding = f" ({tensor.dtype} as its bits)" if tensor.dtype in ("bf16", "fp16") else ""
    return f"   {name}: {C_TYPES[tensor.dtype]} [{']['.join(map(str, tensor.shape))}]{encoding}"
