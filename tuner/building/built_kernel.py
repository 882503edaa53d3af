"""BuiltKernel: a chosen kernel as a function of arrays. A device that is not here has the source alone."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from seqtune.errors import DeviceError, MisuseError, SeqtuneError, UnavailableError
from seqtune.kernels.launches.call_declaration import call_of
from seqtune.kernels.launches.contents import RandomNumbers, contents, copied_input
from seqtune.kernels.llvm.aligned import aligned
from seqtune.kernels.llvm.launch import llvm_implementation
from seqtune.kernels.lookup import resolve
from seqtune.kernels.operations.table import operation
from seqtune.kernels.operations.tensor import Tensor
from seqtune.kernels.resource_usage import ResourceUsage

from ..backends.compilers import OFFLINE_COMPILERS, resource_usage
from ..backends.llvm.backend import constant_argument, plain_tensors
from ..backends.stored_operands import stored
from .chosen import Chosen, compiling, files_of, write_folder
from .description import described_call, described_launch
from .operands import Packed, Place, Signature
from .runners import BufferRunner, InPlaceRunner, open_runner


class BuiltKernel:
    """A kernel with its configuration. Calling it computes; calls from several threads run one after the other."""

    def __init__(self, chosen: Chosen, signature: Signature, source: str,
                 launches: Sequence[Mapping[str, object]]) -> None:
        """`launches` are those that launch.json describes. Raises SeqtuneError if the device refuses the kernel."""
        self.chosen, self.source, self.launches = chosen, source, tuple(launches)
        self.inputs, self.outputs, self._constant = signature.inputs, signature.outputs, signature.constant
        self._begins = signature.begins
        self._order = {place.name: index for index, place in enumerate(self.inputs)}
        self._runner: InPlaceRunner | BufferRunner | None = None
        self._absent: SeqtuneError | None = None  # why it cannot run here
        try:
            self._runner = open_runner(chosen, signature)
        except (DeviceError, UnavailableError) as error:
            self._absent = error
        else:
            weakref.finalize(self, self._runner.close)

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
        values = operands if not named and len(operands) == len(self.inputs) else _ordered(
            "the kernel", list(self._order), operands, named)
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

    def pack(self, *operand: Any, **named: Any) -> Packed:
        """The constant operand (filter, weights) in the kernel's order, so that calls need not pack it.

        It may be given by its name. Raises MisuseError.
        """
        if self._constant is None:
            raise MisuseError(f"{self.chosen.kernel.name} takes its operands as they are; none is packed")
        place = self.inputs[self._order[self._constant.name]]
        (array,) = _ordered("pack", [place.name], operand, named)
        original = place.numbers(array).copy()
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


def _ordered(taker: str, names: Sequence[str], operands: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """The operands of these names, given by order or by name, in order. Raises MisuseError."""
    given = dict(zip(names, operands, strict=False))
    twice, unknown = sorted(given.keys() & named.keys()), sorted(named.keys() - set(names))
    values = {**given, **named}
    if len(operands) > len(names) or twice or unknown or len(values) < len(names):
        wrong = (f"{unknown[0]} is none of them" if unknown else f"{twice[0]} is given twice" if twice else
                 f"{len(values) if len(values) < len(names) else len(operands)} are given")
        raise MisuseError(f"{taker} takes {', '.join(names)}; {wrong}")
    return [values[name] for name in names]


@compiling()
def built_kernel(chosen: Chosen) -> BuiltKernel:
    """Build a chosen kernel. Raises KernelError without code, SeqtuneError if the compiler or the device refuses it."""
    problem, device, configuration = chosen.problem, chosen.device, chosen.configuration
    if device.backend == "llvm":
        code, tensors = llvm_implementation(chosen.kernel), plain_tensors(problem)
        constant = constant_argument(code, problem, device, configuration)
        described: Any = described_launch(code.launch(problem, device, configuration), tensors, {})
        return BuiltKernel(chosen, Signature.of(tensors, constant),
                           code.source(problem, device, configuration).text, described["phases"])
    tensors, call = operation(problem.type).tensors(problem), call_of(chosen.kernel, problem, device, configuration)
    constant = next((argument for argument in call.buffers().values() if argument.packing is not None), None)
    described = described_call(call, tensors, {})
    return BuiltKernel(chosen, Signature.of(tensors, constant), call.source.text, described["launches"])
