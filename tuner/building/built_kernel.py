"""BuiltKernel: a chosen kernel as a function of arrays.

Kernels of llvm devices run in place, on the caller's arrays. Those of other devices run on buffers of the device, and
the arrays are copied to and from these. A device that is not here has the source alone.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import DeviceError, MisuseError, SeqtuneError, UnavailableError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.devices.element_types import decode, element_type, encode
from seqtune.kernels.launches.call import BufferArgument
from seqtune.kernels.launches.call_declaration import call_of
from seqtune.kernels.launches.contents import RandomNumbers, contents, copied_input
from seqtune.kernels.llvm.aligned import aligned
from seqtune.kernels.llvm.launch import llvm_implementation
from seqtune.kernels.lookup import resolve
from seqtune.kernels.operations.table import operation
from seqtune.kernels.operations.tensor import Tensor
from seqtune.kernels.resource_usage import ResourceUsage

from ..backends import discovery
from ..backends.backend import LaunchError, build_executable, open_backend
from ..backends.compiled_step import resource_usage
from ..backends.compilers import OFFLINE_COMPILERS
from ..backends.llvm.backend import LLVMBackend, constant_argument, plain_tensors
from ..backends.llvm.compiler import Compiler
from ..backends.llvm.kernel_job import KernelJob
from ..backends.llvm.turn import Turn
from ..backends.stored_operands import stored
from .chosen import Chosen, compiling, files_of
from .description import described_call, described_launch
from .folder import write_folder
from .operands import Packed, Place


def _numbers(value: Any, place: Place) -> NDArray[Any]:
    """An operand's numbers as packings and backends take them, on the same memory if they are stored so."""
    view = place.view(value)
    return view if view.dtype == element_type(place.dtype).host else decode(view, place.dtype)


class Runner(Protocol):
    """Runs a built kernel."""

    def run(self, values: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Run on the operands and outputs, in order; a constant may be Packed. Raises MisuseError, SeqtuneError."""
        ...

    def close(self) -> None:
        """Free what the kernel has."""
        ...


class BuiltKernel:
    """A kernel with its configuration. Calling it computes; calls from several threads run one after the other."""

    def __init__(self, chosen: Chosen, inputs: Sequence[Place], outputs: Sequence[Place], tensors: Mapping[str, Tensor],
                 constant: BufferArgument | None, source: str, launches: Sequence[Mapping[str, object]]) -> None:
        """`tensors` are the declared outputs, `constant` the operand that is packed; `launches` are those that
        launch.json describes.
        """
        self.chosen, self.source, self.launches = chosen, source, tuple(launches)
        self.inputs, self.outputs, self._constant = tuple(inputs), tuple(outputs), constant
        self._order = {place.name: index for index, place in enumerate(inputs)}
        self._begins = {name: tensor for name, tensor in tensors.items() if tensor.values is not None}
        self._runner: Runner | None = None
        self._absent: SeqtuneError | None = None  # why it cannot run here
        try:
            discovery.check_present(chosen.device)
            runner = _RUNNERS.get(chosen.device.backend, _DeviceRunner)(
                chosen, self.inputs, self.outputs, constant, self._begins)
        except (DeviceError, UnavailableError) as error:
            self._absent = error
        except LaunchError as error:
            raise SeqtuneError(f"{chosen.device.name} refuses the kernel: {error}") from None
        else:
            self._runner = runner
            weakref.finalize(self, runner.close)

    def __repr__(self) -> str:
        chosen = self.chosen
        return f"<{chosen.brief()} for {chosen.problem.brief()} on {chosen.device.name}: {chosen.origin}>"

    def __call__(self, *operands: Any, out: Any = None, **named: Any) -> Any:
        """Compute the output of these operands, given in the operation's order or by name.

        `out` is an array for the output, or several by name; without it a new one is made: a PyTorch tensor if an
        operand is one. bf16 is uint16 in NumPy. Raises MisuseError if an array does not suit, DeviceError if the device
        is not here, SeqtuneError if it refuses the launch.
        """
        if self._runner is None:
            assert self._absent is not None
            raise type(self._absent)(f"{self.chosen.device.name} is not here, so the kernel can be read and saved, and "
                                     f"not be run: {self._absent}")
        values = operands if not named and len(operands) == len(self.inputs) else self._ordered(operands, named)
        for place, value in zip(self.inputs, values, strict=True):
            if type(value) is Packed:
                if self._constant is None or value.form != self._form:
                    raise MisuseError(f"{value.name} was packed for another kernel; pack it with this one's `pack`")
                if place.name != self._constant.name:
                    raise MisuseError(f"{place.name} is the packed {value.name}; give an array")
        outputs = self._outputs(out, values)
        self._runner.run(values, outputs)
        return outputs[0] if len(outputs) == 1 else dict(zip((place.name for place in self.outputs), outputs,
                                                             strict=True))

    def pack(self, array: Any) -> Packed:
        """The constant operand (filter, weights) in the kernel's order, so that calls need not pack it.

        Raises MisuseError.
        """
        if self._constant is None:
            raise MisuseError(f"{self.chosen.kernel.name} takes its operands as they are; none is packed")
        place = self.inputs[self._order[self._constant.name]]
        original = _numbers(array, place).copy()
        original.flags.writeable = False
        content = stored(original, self._constant)
        packed = aligned(content.shape, content.dtype)
        packed[...] = content
        return Packed(place.name, self._form, packed, original, int(packed.ctypes.data))

    @cached_property
    def _form(self) -> tuple[object, ...]:
        assert self._constant is not None
        return self._constant, self.inputs[self._order[self._constant.name]].shape

    @cached_property
    def resources(self) -> ResourceUsage | None:
        """Registers and memory that a GPU's compiler reports, without the GPU; None where no compiler tells them.

        Raises UnavailableError if the compiler is not installed, SeqtuneError if it refuses the source.
        """
        chosen = self.chosen
        reference = OFFLINE_COMPILERS.get(chosen.device.backend)
        if reference is None or chosen.device.backend == "llvm":
            return None
        compiler: Any = resolve(reference)(chosen.device)  # type: ignore[operator]
        with compiling():
            return resource_usage(compiler.steps(chosen.problem, chosen.kernel, chosen.configuration), chosen.device)

    def save(self, folder: str | Path) -> None:
        """Write the kernel to a new folder of files that need no seqtune. Raises MisuseError, SeqtuneError."""
        write_folder(files_of([self.chosen]), Path(folder))

    def _ordered(self, operands: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """The operands in order. Raises MisuseError."""
        names = list(self._order)
        given = dict(zip(names, operands, strict=False))
        twice, unknown = sorted(given.keys() & named.keys()), sorted(named.keys() - self._order.keys())
        values = {**given, **named}
        if len(operands) > len(names) or twice or unknown or len(values) < len(names):
            wrong = (f"{unknown[0]} is none of them" if unknown else f"{twice[0]} is given twice" if twice else
                     f"{len(values) if len(values) < len(names) else len(operands)} are given")
            raise MisuseError(f"the kernel takes {', '.join(names)}; {wrong}")
        return [values[name] for name in names]

    def _outputs(self, out: Any, values: Sequence[Any]) -> list[Any]:
        """The arrays of the outputs, given or new. Raises MisuseError."""
        if out is None:
            as_tensor = "torch" in sys.modules and any(isinstance(value, sys.modules["torch"].Tensor)
                                                       for value in values)
            made = [place.new(as_tensor) for place in self.outputs]
            for place, array in zip(self.outputs, made, strict=True):
                if place.name in self._begins:
                    place.view(array)[...] = self._beginning(self._begins[place.name], place, values)
            return made
        if not isinstance(out, dict) and len(self.outputs) == 1:  # a call should cost a few microseconds
            return [out]
        names = [place.name for place in self.outputs]
        if not isinstance(out, Mapping):
            raise MisuseError(f"out is a {type(out).__name__}; give the outputs, {', '.join(names)}, by name")
        if sorted(out) != sorted(names):
            raise MisuseError(f"out has {', '.join(map(str, out)) or 'nothing'}; the outputs are {', '.join(names)}")
        return [out[name] for name in names]

    def _beginning(self, tensor: Tensor, place: Place, values: Sequence[Any]) -> NDArray[Any]:
        """The contents of a new output before a call. Raises MisuseError where the caller must give it."""
        copied = copied_input(tensor.values)
        if copied in self._order:
            index = self._order[copied]
            return self.inputs[index].view(values[index])
        if copied is not None or RandomNumbers.of(tensor.values) is not None:
            raise MisuseError(f"{place.name} begins as {tensor.values!r}, which this call does not have; give the "
                              "array that the kernel changes by `out`")
        return contents(place.name, tensor, 0)


@compiling()
def built_kernel(chosen: Chosen) -> BuiltKernel:
    """Build a chosen kernel. Raises KernelError without code, SeqtuneError if the compiler or the device refuses it."""
    problem = chosen.problem
    if chosen.device.backend == "llvm":
        tensors, code = plain_tensors(problem), llvm_implementation(chosen.kernel)
        described: Any = described_launch(code.launch(problem, chosen.device, chosen.configuration), tensors, {})
        return BuiltKernel(
            chosen, _places(tensors.inputs), _places(tensors.outputs), tensors.outputs,
            constant_argument(code, problem, chosen.device, chosen.configuration),
            code.source(problem, chosen.device, chosen.configuration).text,
            described["phases"])
    tensors = operation(problem.type).tensors(problem)
    call = call_of(chosen.kernel, problem, chosen.device, chosen.configuration)
    taken = call.buffers()
    packed = [argument for argument in taken.values() if argument.packing is not None]
    described = described_call(call, tensors, {})
    return BuiltKernel(
        chosen, _places({name: tensor for name, tensor in tensors.inputs.items() if name in taken}),
        _places(tensors.outputs), tensors.outputs, packed[0] if packed else None, call.source.text,
        described["launches"])


def _places(tensors: Mapping[str, Tensor]) -> list[Place]:
    return [Place(name, tensor.shape, tensor.dtype) for name, tensor in tensors.items()]


class _Opened:
    """The open backend of a device, which all its built kernels of this process share; they take turns."""

    def __init__(self, device: Device) -> None:
        self.turn = Turn()
        self.backend: Any = LLVMBackend(device, pins_caller=False) if device.backend == "llvm" else open_backend(device)
        weakref.finalize(self, self.backend.close)


_OPENED: weakref.WeakValueDictionary[Device, _Opened] = weakref.WeakValueDictionary()
_OPENING = threading.Lock()


def _opened(device: Device) -> _Opened:
    """The backend of a device, opened for its first kernel and closed after its last one. Raises what opening does."""
    with _OPENING:
        opened = _OPENED.get(device)
        if opened is None:
            opened = _OPENED[device] = _Opened(device)
        return opened


class _PlacesRunner:
    """Runs an llvm kernel in place."""

    def __init__(self, chosen: Chosen, inputs: Sequence[Place], outputs: Sequence[Place],
                 constant: BufferArgument | None, begins: Collection[str]) -> None:
        """`constant` is the operand that is packed; `begins` are none, since llvm's kernels write whole outputs."""
        problem, device, configuration = chosen.problem, chosen.device, chosen.configuration
        code = llvm_implementation(chosen.kernel)
        self._opened = _opened(device)
        self._compiler = Compiler(device.instruction_set)
        source, launch = code.source(problem, device, configuration), code.launch(problem, device, configuration)
        self._job = KernelJob(self._compiler.build(source.text, source.options)[0], launch)
        self._workspace = aligned((launch.workspace,))
        self._at = self._workspace.ctypes.data if launch.workspace else 0
        self._inputs, self._y = tuple(inputs), outputs[0]
        self._constant = constant

    def run(self, values: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Run on the arrays. Raises MisuseError."""
        kept: list[NDArray[Any]] = []  # constants that are packed for this call
        addresses: list[int] = []
        y = self._y.address(outputs[0], written=True)
        end = y + self._y.bytes
        for place, value in zip(self._inputs, values, strict=True):
            if type(value) is Packed:
                addresses.append(value.address)
                continue
            address = place.address(value)
            if address < end and y < address + place.bytes:
                raise MisuseError(f"the output overlaps {place.name}; kernels read their operands while they write")
            if self._constant is not None and place.name == self._constant.name:
                kept.append(stored(_numbers(value, place), self._constant))
                address = int(kept[-1].ctypes.data)
            addresses.append(address)
        with self._opened.turn:
            self._job.bind(addresses, y, self._at)
            self._opened.backend.threads.run(self._job.address)

    def close(self) -> None:
        """Free the code."""
        self._compiler.close()


class _DeviceRunner:
    """Runs a kernel on buffers of its device, to and from which arrays are copied."""

    def __init__(self, chosen: Chosen, inputs: Sequence[Place], outputs: Sequence[Place],
                 constant: BufferArgument | None, begins: Collection[str]) -> None:
        """`constant` is packed by the executable; `begins` are the outputs whose contents count."""
        self._opened = _opened(chosen.device)
        self._inputs, self._outputs = tuple(inputs), tuple(outputs)
        self._held: dict[str, Packed] = {}  # the packed constants that the buffers hold
        self._contents = begins
        with self._opened.turn:
            self._executable = build_executable(self._opened.backend, chosen.problem, chosen.kernel,
                                                chosen.configuration)

    def run(self, values: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Copy the operands, launch, and copy the results. Raises MisuseError, SeqtuneError."""
        views = [place.view(value, written=True) for place, value in zip(self._outputs, outputs, strict=True)]
        arrays = {place.name: _numbers(view, place) for place, view in zip(self._outputs, views, strict=True)
                  if place.name in self._contents}
        with self._opened.turn:
            for place, value in zip(self._inputs, values, strict=True):
                if type(value) is not Packed:
                    self._held.pop(place.name, None)
                    arrays[place.name] = _numbers(value, place)
                elif self._held.get(place.name) is not value:
                    self._held[place.name], arrays[place.name] = value, value.original
            try:
                self._executable.load(arrays)
                self._executable.run()
                results = self._executable.outputs()
            except LaunchError as error:
                self._held.clear()
                raise SeqtuneError(f"the launch failed: {error}") from None
        for place, view in zip(self._outputs, views, strict=True):
            result = results[place.name]
            np.copyto(view, result if result.dtype == view.dtype else encode(result, place.dtype))

    def close(self) -> None:
        """Free the buffers."""
        with self._opened.turn:
            self._executable.close()


_RUNNERS: dict[str, Any] = {"llvm": _PlacesRunner}
