"""Compiled: functions in LLVM IR, compiled for this CPU, that Python calls.

They run on the calling thread. The user's cache keeps the machine code for other processes. They check nothing:
the caller checks shapes and indices first.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

Functions = Mapping[str, Callable[..., None]]
_number_at = ctypes.c_size_t.from_address
_HEAD = object.__basicsize__  # bytes of an object before its own fields, of which an array's first is its address


def address(array: NDArray[Any]) -> int:
    """The address of an array's first number, as `array.ctypes.data`, in a seventh of the time.

    NumPy's C interface promises where it stands (`PyArrayObject.data`). An answer asks hundreds of times.
    """
    return _number_at(id(array) + _HEAD).value


def compiled(text: Callable[[int], str], signatures: Mapping[str, str], name: str | None = None) -> Functions:
    """Compile functions, given as name -> parameters (`ptr %x, i64 %rows`). Pointers are passed as whole numbers, too.

    `text` takes the number of bits of the CPU's vectors and returns the module that defines the functions. `name` is an
    instruction set (None: the widest one of the CPU).
    """
    from ..image_cache import ImageCache
    from .compiler import INSTRUCTION_SETS, Compiler, instruction_sets

    name = name or (instruction_sets() or ["neon"])[0]  # elsewhere LLVM splits the vectors into those of the CPU
    compiler = Compiler(name, ImageCache("object"))
    module, _ = compiler.build(text(INSTRUCTION_SETS[name].vector_bits))
    functions: dict[str, Any] = {}
    for entry, signature in signatures.items():
        kinds = [ctypes.c_void_p if part.startswith("ptr") else ctypes.c_ssize_t for part in signature.split(", ")]
        # A call is short, so it keeps the interpreter's lock: to get it back from a busy thread would take 5 ms
        functions[entry] = ctypes.PYFUNCTYPE(None, *kinds)(module.address(entry))
        functions[entry].code = compiler, module  # the machine code lives as long as they do
    return functions
