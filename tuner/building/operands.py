"""Operands: the arrays that a caller gives to a built kernel, checked and read in place.

NumPy arrays, everything with `__array_interface__`, and PyTorch's CPU tensors are taken; PyTorch is never imported.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import MisuseError
from seqtune.kernels.devices.element_types import decode, element_type
from seqtune.kernels.launches.call import BufferArgument
from seqtune.kernels.llvm.aligned import address_of, aligned
from seqtune.kernels.operations.tensor import Tensor, Tensors


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """A constant operand in the order in which a kernel reads it. It serves every kernel with an equal `form`."""

    name: str
    form: Hashable = field(repr=False)
    array: NDArray[Any] = field(repr=False)  # as the kernel reads it
    original: NDArray[Any] = field(repr=False)  # read-only, numbers as on the host
    address: int  # of the packed elements


@dataclass(frozen=True, eq=False)
class Place:
    """The shape and the element type of an operand or output."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @cached_property
    def stored(self) -> np.dtype[Any]:
        """The NumPy type of its elements."""
        return element_type(self.dtype).stored

    @cached_property
    def bytes(self) -> int:
        """The bytes of its elements."""
        return self.stored.itemsize * math.prod(self.shape)

    @cached_property
    def torch_type(self) -> Any:
        """PyTorch's element type; None where PyTorch is not loaded."""
        torch = sys.modules.get("torch")
        return None if torch is None else getattr(torch, element_type(self.dtype).torch, None)

    def address(self, value: Any, written: bool = False) -> int:
        """The address of an array's elements. Raises MisuseError, with the reason, if kernels cannot use it in place.

        `written`: the kernel writes it.
        """
        if isinstance(value, np.ndarray):
            if type(value) is not np.ndarray and isinstance(value, np.ma.MaskedArray):
                raise MisuseError(f"{self.name} is a masked array, whose masked elements would be read; give its "
                                  "`filled(...)`")
            if value.shape != self.shape or value.dtype != self.stored:
                raise self._unlike(value.shape, value.dtype)
            flags = value.flags
            if flags.carray:  # contiguous, aligned and writable
                return address_of(value)
            if not flags.c_contiguous:
                raise MisuseError(f"{self.name} is not contiguous; numpy.ascontiguousarray copies it")
            if written and not flags.writeable:
                raise MisuseError(f"{self.name} is read-only, and the kernel writes it")
            if not flags.aligned:
                raise MisuseError(f"{self.name} is not aligned: its address is no multiple of {self.stored.itemsize} "
                                  "bytes; copy it")
            return int(value.__array_interface__["data"][0])
        if hasattr(value, "data_ptr"):
            return self._address_of_tensor(value)
        if hasattr(value, "__array_interface__"):
            return self.address(np.asarray(value), written)
        raise MisuseError(f"{self.name} is a {type(value).__name__}; give a NumPy array or a PyTorch CPU tensor")

    def _address_of_tensor(self, tensor: Any) -> int:
        if tensor.device.type != "cpu":
            raise MisuseError(f"{self.name} is on {tensor.device}; the kernel takes tensors of the CPU")
        if tuple(tensor.shape) != self.shape or tensor.dtype != self.torch_type:
            raise self._unlike(tuple(tensor.shape), tensor.dtype)
        if not tensor.is_contiguous():
            raise MisuseError(f"{self.name} is not contiguous; its `contiguous()` copies it")
        if tensor.requires_grad and sys.modules["torch"].is_grad_enabled():
            raise MisuseError(f"{self.name} needs gradients, which the kernel does not compute; give `{self.name}"
                              ".detach()`")
        if tensor.is_neg():  # as `z.conj().imag` is: PyTorch changes the signs when it reads them
            raise MisuseError(f"{self.name} is a view whose signs are not changed yet; its `resolve_neg()` copies it")
        address = int(tensor.data_ptr())
        if not address:
            raise MisuseError(f"{self.name} has no memory, as fake tensors have none; give a tensor with numbers")
        if address % self.stored.itemsize:
            raise MisuseError(f"{self.name} is not aligned: its address is no multiple of {self.stored.itemsize} "
                              "bytes; copy it")
        return address

    def view(self, value: Any, written: bool = False) -> NDArray[Any]:
        """A checked array or tensor as a NumPy array on the same memory, of the stored type. Raises MisuseError."""
        address = self.address(value, written)
        if isinstance(value, np.ndarray):
            return value
        if hasattr(value, "data_ptr"):
            interface = {"shape": self.shape, "typestr": self.stored.str, "data": (address, False), "version": 3}
            return np.asarray(type("Memory", (), {"__array_interface__": interface, "owner": value})())
        return np.asarray(value)

    def numbers(self, value: Any) -> NDArray[Any]:
        """The numbers of a checked array or tensor as packings and backends take them. Raises MisuseError.

        They are on the same memory if they are stored so.
        """
        view, element = self.view(value), element_type(self.dtype)
        return view if view.dtype == element.host else decode(view, self.dtype)

    def new(self, as_tensor: bool) -> Any:
        """A new, uninitialised array, or PyTorch tensor."""
        if as_tensor:
            return sys.modules["torch"].empty(self.shape, dtype=self.torch_type)
        return aligned(self.shape, self.stored)

    def _unlike(self, shape: tuple[int, ...], dtype: object) -> MisuseError:
        kind = "bf16 (uint16 in NumPy, torch.bfloat16)" if self.dtype == "bf16" else str(self.stored)
        return MisuseError(f"{self.name} is {dtype} of the shape {tuple(shape)}; the kernel takes {kind} of the shape "
                           f"{self.shape}")


@dataclass(frozen=True, eq=False)
class Signature:
    """The operands and outputs of a kernel, in order."""

    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    constant: BufferArgument | None  # the operand that is packed
    begins: Mapping[str, Tensor]  # the outputs that have contents before a run

    @classmethod
    def of(cls, tensors: Tensors, constant: BufferArgument | None) -> Signature:
        """The signature of a kernel: all operands of its operation, also those that its code does not read."""
        inputs, outputs = (tuple(Place(name, tensor.shape, tensor.dtype) for name, tensor in each.items())
                           for each in (tensors.inputs, tensors.outputs))
        return cls(inputs, outputs, constant,
                   {name: tensor for name, tensor in tensors.outputs.items() if tensor.values is not None})
