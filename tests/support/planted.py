"""A backend for tests alone: its kernels do what their configuration says, down to killing the process.

`planted.gemm` multiplies matrices with NumPy. `deed` chooses the misdeed, `number` makes the space larger, and
`wait` is milliseconds that a launch sleeps. A loop sleeps, too, so that it takes no core from other tests. Runners
find it by `BACKEND`, `KERNELS` and `PATH`.
`planted.ir` is the same in LLVM IR, for the real llvm backend: it multiplies two numbers.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Constraint, Kernel, Parameter
from seqtune.kernels.launches.implementation import Array, KernelSource
from seqtune.kernels.llvm.launch import Launch, Phase
from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.problem import Problem
from seqtune.kernels.resource_usage import ResourceUsage
from seqtune.tuner.backends.backend import BuildError, DeviceLost, LaunchError, ReferenceWork, wall_clock

DEEDS = ("good", "compile", "wrong", "nan", "unwritten", "overrun", "launch", "mistake", "segv", "abort", "loop",
         "loop_in_build", "chatty", "delayed", "lost")
DEVICE = Device(name="planted:1", backend="planted", architecture="paper", instruction_set="none", model="test",
                toolchain="planted 1")
KERNEL = Kernel(
    "planted.gemm", "gemm", ("planted",),
    (Parameter("deed", DEEDS), Parameter("wait", (0, 1, 2, 20, 200)), Parameter("number", tuple(range(400)))),
    (Constraint.of("number < m * 16", "more numbers than the problem has"),),
    (("deed", "good"), ("wait", 0), ("number", 0)))
GOOD = Kernel(  # the quick one: nothing but good deeds
    "planted.good", "gemm", ("planted",), (Parameter("number", tuple(range(400))),),
    (Constraint.of("number < m * 16", "more numbers than the problem has"),), (("number", 0),))
BACKEND = "planted:PlantedBackend"
_WAIT = "call i32 @pause()" if os.name == "posix" else ""  # until a signal comes, which takes no core from other tests
_IR = {
    "good": "store float %p, ptr %y  ret void",
    "compile": "store float %nothing, ptr %y  ret void",
    "wrong": "%q = fadd float %p, 1.0  store float %q, ptr %y  ret void",
    "unwritten": "ret void",
    "overrun": "store float %p, ptr %y  %z = getelementptr float, ptr %y, i64 1  store float %p, ptr %z  ret void",
    "underrun": "store float %p, ptr %y  %z = getelementptr float, ptr %x, i64 -1  store float %p, ptr %z  ret void",
    "far": "%z = getelementptr float, ptr %y, i64 1099511627776  store float %p, ptr %z  ret void",
    "segv": "store volatile float %p, ptr inttoptr (i64 16 to ptr)  ret void",
    "abort": "call void @abort()  ret void",
    "loop": f"br label %again  again:  {_WAIT}  br label %again",
}
IR_KERNEL = Kernel("planted.ir", "gemm", ("llvm",), (Parameter("deed", tuple(_IR)),), (), (("deed", "good"),),
                   implementation="planted:IR")
KERNELS = {"planted.gemm": "planted:KERNEL", "planted.good": "planted:GOOD", "planted.ir": "planted:IR_KERNEL"}
PATH = [str(Path(__file__).resolve().parent)]
PROBLEM = Problem.make("gemm", m=8, n=8, k=8)
RESOURCES = ResourceUsage(registers=40, shared_bytes=2048, spill_bytes=16, occupancy=0.75)  # as on a GPU


def deed(name: str, number: int = 0, wait: int = 0) -> Configuration:
    """A configuration of planted.gemm."""
    settings: dict[str, int | str] = {"deed": name, "wait": wait, "number": number}
    return Configuration.of("planted.gemm", settings)


class _Implementation:
    """y[0] = x[0] * weights[0], or the deed."""

    includes = "everything"

    def source(self, problem: Problem, device: Device, configuration: Configuration) -> KernelSource:
        return KernelSource(f"""
declare void @abort()
declare i32 @pause()
define void @go(ptr %x, ptr %w, ptr %b, ptr %y, ptr %s, ptr %a, i64 %begin, i64 %end) {{
  %u = load float, ptr %x
  %v = load float, ptr %w
  %p = fmul float %u, %v
  {_IR[str(configuration["deed"])].replace("  ", chr(10))}
}}
""")

    def launch(self, problem: Problem, device: Device, configuration: Configuration) -> Launch:
        return Launch((), (Phase("go", tasks=1),))

    def packing(self, problem: Problem, configuration: Configuration) -> None:
        return None

    def pack(self, problem: Problem, device: Device, configuration: Configuration, weights: Array) -> Array:
        return weights


IR = _Implementation()


damage: list[PlantedExecutable] = []


class PlantedExecutable:
    """One launch of one deed."""

    def __init__(self, deed: str, wait: float, problem: Problem) -> None:
        self.build_seconds = 0.001
        self.resources: ResourceUsage | None = RESOURCES
        self.deed, self.wait = deed, wait
        self.y = np.zeros((problem.size("m"), problem.size("n")), dtype=np.float32)
        self.overran = False

    def load(self, operands: Operands) -> None:
        self.x, self.weights = operands["x"].copy(), operands["weights"].copy()

    def poison(self) -> None:
        self.y[:] = np.nan
        self.overran = False

    def run(self) -> None:
        if self.wait:
            time.sleep(self.wait)
        if damage and damage[0] is not self:
            ctypes.string_at(0)
        if self.deed == "delayed":  # correct itself, but whoever runs next in this process crashes
            damage.append(self)
        if self.deed == "segv":
            ctypes.string_at(0)
        elif self.deed == "abort":
            os.kill(os.getpid(), signal.SIGABRT)
        elif self.deed == "launch":
            raise LaunchError("too many\nwork-items")
        elif self.deed == "lost":
            raise DeviceLost("an illegal memory access")
        elif self.deed == "mistake":
            raise ZeroDivisionError("a mistake in the backend")
        elif self.deed == "chatty":
            os.write(1, b"a driver talks\n")
        while self.deed == "loop":
            time.sleep(60)
        np.matmul(self.x, self.weights, out=self.y)
        if self.deed == "wrong":
            self.y += 1e-2
        elif self.deed == "nan":
            self.y[0, 0] = np.nan
        elif self.deed == "unwritten":
            self.y[-1] = np.nan
        self.overran = self.deed == "overrun"

    def time(self, launches: int) -> float:
        return wall_clock(self.run, launches)

    def outputs(self) -> dict[str, Array]:
        return {"y": self.y.copy()}

    def overrun(self) -> str | None:
        return "output" if self.overran else None

    def close(self) -> None:
        pass


class PlantedBackend:
    """Builds what the configuration says."""

    reference_work: ReferenceWork | None = None
    checks_itself = False

    def __init__(self, device: Device) -> None:
        self.build_allowance = 7.0 if device.model == "slow to build" else 0.0
        if device.model == "broken":
            raise RuntimeError("the driver is broken")
        if device.model in ("hungry", "slow"):  # the worker is killed, or takes for ever, while it makes operands
            worker: Any = sys.modules["__main__"]
            worker.prepare = lambda *_: (
                os.kill(os.getpid(), signal.SIGKILL) if device.model == "hungry" else time.sleep(600))
        self.device = device

    def build(self, problem: Problem, kernel: Kernel, configuration: Configuration) -> PlantedExecutable:
        settings = dict(configuration.settings)
        name = str(settings.get("deed", "good"))
        if name == "compile":
            raise BuildError("line 1:\n  error: planted")
        while name == "loop_in_build":
            time.sleep(60)
        # planted.good has a time landscape with its best at 137
        wait = settings["wait"] if "wait" in settings else 0.2 + abs(configuration.number("number") - 137) * 0.005
        return PlantedExecutable(name, float(wait) * 1e-3, problem)

    def close(self) -> None:
        pass
