"""TritonExecutable: a configuration of a Triton kernel with its tensors on a PyTorch device.

The launcher and PyTorch's device are all that depends on a GPU: in Triton's interpreter the same code runs on CPU
tensors, which is how it is tested without one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from seqtune.errors import one_line
from seqtune.kernels.devices.device import Device
from seqtune.kernels.devices.element_types import ELEMENT_TYPES, decode
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.launches.implementation import Array, Implementation, KernelSource, Launch
from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.resource_usage import ResourceUsage
from seqtune.kernels.triton.text import constants_of

from ..backend import DeviceLost, LaunchError, wall_clock
from ..stored_operands import OperandForms, StoredOperands
from .compiler import BUFFERS, FUSION, OPTIONS, function_of

CANARY = 0x7FCA  # a NaN in fp16 and bf16, and twice in a row in fp32, which no kernel computes
MARGIN = 1024  # elements of canary on each side of every buffer; keeps the 16-byte alignment that Triton looks for


class TritonExecutable:
    """A built configuration with its tensors; see `seqtune.tuner.backends.backend.Executable`.

    `flush` overwrites the caches of the GPU; None where the clock of the host measures (the interpreter). Executables
    share `operands`. Raises LaunchError where the GPU's memory does not suffice.
    """

    def __init__(self, problem: Problem, device: Device, configuration: Configuration, implementation: Implementation,
                 torch_device: str, flush: Callable[[], None] | None = None,
                 operands: StoredOperands | None = None) -> None:
        import torch

        self.torch: Any = torch
        self.torch_device, self.flush = torch_device, flush
        self.forms = OperandForms(problem, device, configuration, implementation, operands or StoredOperands())
        self.build_seconds = 0.0
        self.resources: ResourceUsage | None = None  # in the interpreter, which compiles nothing
        self.dtype = problem.dtype
        work = operation(problem.type)
        self.shape = work.output(problem)
        source: KernelSource = implementation.source(problem, device, configuration)
        launch: Launch = implementation.launch(problem, device, configuration)
        element = problem.element.size
        sizes = {name: self.forms.size(name, shape) // element for name, shape in work.operands(problem).items()}
        self.sizes = {**dict.fromkeys(BUFFERS, 1), **sizes, "y": math.prod(self.shape),
                      "workspace": max(1, launch.workspace)}
        with self.checked():
            self.whole = {name: torch.zeros(size + 2 * MARGIN, dtype=self.element(name), device=torch_device)
                          for name, size in self.sizes.items()}
        self.inner = {name: whole[MARGIN:MARGIN + self.sizes[name]] for name, whole in self.whole.items()}
        self.steps = self.launches(source, launch)

    def launches(self, source: KernelSource, launch: Launch) -> list[Callable[[], None]]:
        """One call for each phase."""
        module, constants = constants_of(source)
        options = FUSION | {name: value for name, value in constants.items() if name in OPTIONS}
        steps: list[Callable[[], None]] = []
        for phase in launch.phases:
            function = function_of(module, phase.entry)
            named = {name: value for name, value in constants.items() if name in function.arg_names}
            grid = tuple(size // threads for size, threads in zip(phase.global_size, phase.local_size, strict=True))
            steps.append(self.step(function, grid, launch.arguments, {**named, **options}))
        return steps

    def step(self, function: Any, grid: tuple[int, ...], integers: tuple[int, ...],
             named: dict[str, Any]) -> Callable[[], None]:
        """The call that launches one kernel."""
        tensors = [self.inner[name] for name in BUFFERS]
        return lambda: function[grid](*tensors, *integers, **named)

    def element(self, name: str) -> Any:
        """PyTorch's element type of a buffer; the workspace holds fp32."""
        return getattr(self.torch, ELEMENT_TYPES["fp32" if name == "workspace" else self.dtype].torch)

    @contextmanager
    def checked(self) -> Iterator[None]:
        """Turn an error into LaunchError, or into DeviceLost where the GPU does not answer after it.

        Errors are Triton's OutOfResources, and PyTorch's and the driver's RuntimeError.
        """
        try:
            yield
        except Exception as error:
            message = one_line(error)
            if self.flush is not None:
                try:  # an illegal address and its like are sticky: every later call of this process fails
                    self.torch.cuda.synchronize(self.torch_device)
                except RuntimeError as later:
                    raise DeviceLost(one_line(later)) from None
            raise LaunchError(message) from None

    def load(self, operands: Operands) -> None:
        """Copy the operands into the buffers, the constant one packed."""
        for name, array in operands.items():
            stored = self.forms.get(name, array).reshape(-1)
            if not stored.flags.writeable:
                stored = np.array(stored)  # PyTorch warns about arrays that are read-only
            bits = self.torch.from_numpy(stored.view(np.int32 if self.dtype == "fp32" else np.int16))
            with self.checked():
                self.inner[name].copy_(bits.view(self.element(name)))
        self.wait()

    def poison(self) -> None:
        """Fill output and workspace with NaN, and reset the canaries around every buffer."""
        for name, whole in self.whole.items():
            bits = whole.view(self.torch.int16)
            if name in ("y", "workspace"):
                bits.fill_(CANARY)
            else:
                margin = MARGIN * whole.element_size() // 2
                bits[:margin].fill_(CANARY)
                bits[-margin:].fill_(CANARY)
        self.wait()

    def run(self) -> None:
        """Launch all phases and wait until they have finished. Raises LaunchError."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Launch all phases, and do not wait for their end. Raises LaunchError."""
        with self.checked():
            for step in self.steps:
                step()

    def wait(self) -> None:
        """Wait for the GPU. Raises LaunchError where a launch failed, or DeviceLost."""
        if self.flush is not None:
            with self.checked():
                self.torch.cuda.synchronize(self.torch_device)

    def time(self, launches: int) -> float:
        """Launch so many times; returns the seconds of all by the GPU's events, each after the caches are overwritten.

        Raises LaunchError.
        """
        if self.flush is None:
            return wall_clock(self.run, launches)
        events = [[self.torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(launches)]
        with self.torch.cuda.device(self.torch_device):
            for begin_event, end_event in events:
                self.flush()
                begin_event.record()
                self.launch()
                end_event.record()
        self.wait()
        return 1e-3 * float(sum(begin_event.elapsed_time(end_event) for begin_event, end_event in events))

    def output(self) -> Array:
        """A copy of the output, in the problem's shape and layout."""
        y = self.inner["y"].cpu()
        bits = y.view(self.torch.int16).numpy().view(np.uint16) if self.dtype == "bf16" else y.numpy()
        return decode(bits, self.dtype).reshape(self.shape).copy()

    def overrun(self) -> str | None:
        """The name of a buffer that was written outside its bounds since `poison`, or None."""
        for name, whole in self.whole.items():
            bits = whole.view(self.torch.int16)
            margin = MARGIN * whole.element_size() // 2
            if bool((bits[:margin] != CANARY).any()) or bool((bits[-margin:] != CANARY).any()):
                return name
        return None

    def close(self) -> None:
        """Free the tensors."""
        self.steps, self.inner, self.whole = [], {}, {}
