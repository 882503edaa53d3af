"""Kernels that read or write outside a buffer: `python -m tests.support.stray_accesses llvm|pocl|intel`.

Each case runs in a forked process, since it may end it. Prints a JSON object, which is empty where the runtime is not
installed: the case -> `correct`, why not, or the name of the signal that ended the process. A kernel copies x to y, and
reads x or writes y once at some distance from an end. What it reads is multiplied by zero.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel, Parameter
from seqtune.kernels.launches.call_declaration import CallDeclaration
from seqtune.kernels.launches.implementation import Array, KernelSource
from seqtune.kernels.llvm.launch import Launch, Phase
from seqtune.kernels.operations.tensor import Tensor, Tensors
from seqtune.kernels.problem import Problem
from seqtune.tuner.backends.backend import Executable
from seqtune.tuner.backends.called_executable import CalledExecutable
from seqtune.tuner.backends.llvm.backend import LLVMBackend
from seqtune.tuner.backends.llvm.discovery import device_of
from seqtune.tuner.backends.opencl.calls import GroupLimits, OpenCLCalls
from seqtune.tuner.backends.opencl.discovery import load
from seqtune.tuner.backends.opencl.programs import build
from seqtune.tuner.measuring.timing import Expected, check

COUNT = 1024  # elements of x and y: a whole page, so that the first element behind them is as near to its end as can be
SIDE = 32
NOT_INSTALLED = 3  # exit status of a child
PLATFORMS = {"pocl": "Portable Computing Language", "intel": "Intel(R) OpenCL"}  # runtime -> in its platform's name
ACCESSES = ("none", "read", "write")
DISTANCES = {"1 element": 1, "1 MiB": 1 << 18, "7 GiB": 7 << 28}  # elements
CASES = {f"{access} {sign}{distance}": (access, elements if sign == "+" else -elements)
         for access in ACCESSES[1:] for sign in "+-" for distance, elements in DISTANCES.items()}
PROBLEM = Problem.make("gemm", m=SIDE, n=SIDE, k=SIDE)
OPENCL = """__kernel void go(__global const float *x, __global const int *stray, __global float *y) {
  for (int i = 0; i < 1024; i++) y[i] = x[i];
  if (stray[0] == 1) y[0] += 0.0f * *(volatile __global const float *)(x + stray[1]);
  if (stray[0] == 2) *(volatile __global float *)(y + stray[1]) = 1.0f;
}"""
LLVM = """
define void @go(ptr %x, ptr %w, ptr %b, ptr %y, ptr %s, ptr %a, i64 %begin, i64 %end) {
entry:
  %access = load i64, ptr %a
  %second = getelementptr i64, ptr %a, i64 1
  %index = load i64, ptr %second
  br label %copy
copy:
  %i = phi i64 [ 0, %entry ], [ %next, %copy ]
  %from = getelementptr float, ptr %x, i64 %i
  %to = getelementptr float, ptr %y, i64 %i
  %v = load float, ptr %from
  store float %v, ptr %to
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 1024
  br i1 %more, label %copy, label %copied
copied:
  switch i64 %access, label %out [ i64 1, label %read
                                   i64 2, label %write ]
read:
  %p = getelementptr float, ptr %x, i64 %index
  %far = load volatile float, ptr %p
  %zero = fmul float %far, 0.0
  %first = load float, ptr %y
  %sum = fadd float %first, %zero
  store float %sum, ptr %y
  ret void
write:
  %q = getelementptr float, ptr %y, i64 %index
  store volatile float 1.0, ptr %q
  ret void
out:
  ret void
}
"""


def index_of(elements: int) -> int:
    """The index of an element so far before the first one, or behind the last one."""
    return elements if elements < 0 else COUNT - 1 + elements


class StrayCopy:
    """An implementation in LLVM IR."""

    includes = "everything"

    def source(self, problem: Problem, device: Device, configuration: Configuration) -> KernelSource:
        return KernelSource(LLVM)

    def launch(self, problem: Problem, device: Device, configuration: Configuration) -> Launch:
        return Launch((int(configuration["access"]), int(configuration["index"])), (Phase("go", tasks=1),))

    def packing(self, problem: Problem, configuration: Configuration) -> None:
        return None

    def pack(self, problem: Problem, device: Device, configuration: Configuration, weights: Array) -> Array:
        return weights


IMPLEMENTATION = StrayCopy()
KERNEL = Kernel("stray.copy", "gemm", ("llvm",), (Parameter("access", (0, 1, 2)), Parameter("index", (0,))),
                (), (("access", 0), ("index", 0)), implementation=f"{__name__}:IMPLEMENTATION")


def llvm_executable(backend: LLVMBackend, access: int, index: int) -> Executable:
    """The kernel on the llvm backend. It takes no thread but this one, so that a forked process can run it."""
    return backend.build(PROBLEM, KERNEL, Configuration.of(KERNEL.name, {"access": access, "index": index}))


def opencl_executable(platform: str, access: int, index: int) -> Executable:
    """The kernel on the first device of an OpenCL platform, which is opened in this process."""
    cl = load()
    found = next((found for found in cl.get_platforms() if PLATFORMS[platform] in found.name), None)
    if found is None:
        os._exit(NOT_INSTALLED)
    handle = found.get_devices()[0]
    device = Device("opencl:test", "opencl", "any", "opencl-c-1.2", threads=1,
                    max_work_group=handle.max_work_group_size, local_memory=handle.local_mem_size)
    context = cl.Context([handle])
    calls = OpenCLCalls(cl, context, cl.CommandQueue(context), GroupLimits(cl, handle, device),
                        lambda source: build(cl, context, source.text, source.options), on_cpu=True)
    tensors = Tensors({"x": Tensor((SIDE, SIDE)), "stray": Tensor((2,), "int32")},
                      {"y": Tensor((SIDE, SIDE), "fp32", None)})
    declaration = CallDeclaration.of("opencl", OPENCL, "go", ["x", "stray", "y"], global_size=["1"])
    call = declaration.call(PROBLEM, device, Configuration.of("stray.copy", {}), tensors)
    executable = CalledExecutable(calls, call, tensors, warm=False)
    executable.load({"stray": np.array([access, index], np.int32)})
    return executable


def verdict(make: Callable[[int, int], Executable], access: str, elements: int) -> str:
    """Check the kernel as a measuring worker does."""
    x = np.random.default_rng(0).random((SIDE, SIDE), np.float32)
    operands = {"x": x, "weights": x}
    executable = make(ACCESSES.index(access), index_of(elements))
    measurement, _ = check(executable, operands, Expected(x, 1.0, 1e-6, np.empty_like(x)))
    return measurement.message or measurement.status.value


def forked(run: Callable[[], str]) -> str:
    """The text that a function returns in a process of its own, or the signal that ended it."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, run().encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == NOT_INSTALLED:
        return ""
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else text


def main() -> None:
    """Run all cases."""
    name = sys.argv[1]
    make: Callable[[int, int], Executable] = partial(opencl_executable, name)
    if name == "llvm":
        device = device_of("llvm")
        assert device is not None
        single = replace(device, name=f"llvm:{device.instruction_set}:1", threads=1)
        make = partial(llvm_executable, LLVMBackend(single))
    none = forked(partial(verdict, make, "none", 1))
    print(json.dumps({"none": none} | {case: forked(partial(verdict, make, *stray)) for case, stray in CASES.items()}
                     if none else {}))


if __name__ == "__main__":
    main()
