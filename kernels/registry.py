"""Registry: the tables of kernel families, with look-up by name or backend."""

from __future__ import annotations

from collections.abc import Mapping

from seqtune.errors import KernelError

from .device import Device
from .kernel import Kernel
from .lookup import resolve
from .problem import Problem

# A new kernel family is one new file and one line here.
KERNELS: dict[str, str] = {
    "llvm.direct": "seqtune.kernels.llvm.direct:KERNEL",
    "llvm.winograd": "seqtune.kernels.llvm.winograd:KERNEL",
    "llvm.depthwise": "seqtune.kernels.llvm.depthwise:KERNEL",
    "llvm.gemm": "seqtune.kernels.llvm.gemm:KERNEL",
    "opencl.direct": "seqtune.kernels.opencl.direct:KERNEL",
    "opencl.gemm": "seqtune.kernels.opencl.gemm:KERNEL",
    "opencl.implicit_gemm": "seqtune.kernels.opencl.implicit_gemm:KERNEL",
    "cuda.shared_gemm": "seqtune.kernels.cuda.shared_gemm:KERNEL",
    "cuda.gemm": "seqtune.kernels.cuda.gemm:KERNEL",
    "cuda.shared_convolution": "seqtune.kernels.cuda.shared_convolution:KERNEL",
    "cuda.direct": "seqtune.kernels.cuda.direct:KERNEL",
    "cuda.implicit_gemm": "seqtune.kernels.cuda.implicit_gemm:KERNEL",
    "cuda.tensor_gemm": "seqtune.kernels.cuda.tensor_gemm:KERNEL",
    "cuda.wgmma_gemm": "seqtune.kernels.cuda.wgmma_gemm:KERNEL",
    "triton.gemm": "seqtune.kernels.triton.gemm:KERNEL",
    "cuda.tensor_convolution": "seqtune.kernels.cuda.tensor_convolution:KERNEL",
    "triton.fused_moe": "seqtune.kernels.triton.fused_moe:KERNEL",
    "triton.scaled_gemm": "seqtune.kernels.triton.scaled_gemm:KERNEL",
}
OWN = ("llvm", "opencl", "cuda", "triton")  # libraries whose families run on the backend of the same name, no other
# Tables of foreign kernel families, which can be looked up but are not in KERNELS: backend -> their table.
FOREIGN = {"miopen": "seqtune.kernels.miopen.solver:KERNELS"}


def table(backend: str) -> Mapping[str, str]:
    """The kernel families that run on a backend: name -> `module:attribute`."""
    if backend not in FOREIGN:
        return {name: reference for name, reference in KERNELS.items()
                if _may_run(name, backend) and backend in _family(reference).backends}
    families = resolve(FOREIGN[backend])
    assert isinstance(families, Mapping)
    return families


def _may_run(name: str, backend: str) -> bool:
    """Whether a family may run on a backend; the families of our own libraries run on theirs alone, others anywhere.

    So a look-up imports no family of another of our backends.
    """
    library = name.partition(".")[0]
    return library == backend or library not in OWN


def kernel(name: str) -> Kernel:
    """The kernel family of this name. Raises KernelError."""
    references = _table_with(name)
    if name not in references:
        raise KernelError(f"no kernel {name!r:.60}; there are {', '.join(references)} (seqtune kernels lists them)")
    return _family(references[name])


def is_registered(name: str) -> bool:
    """Whether `kernel` finds a family of this name."""
    return name in _table_with(name)


def _table_with(name: str) -> Mapping[str, str]:
    """The table that has the name if any has."""
    library = name.partition(".")[0]
    return table(library) if library in FOREIGN else KERNELS


def _family(reference: str) -> Kernel:
    family = resolve(reference)
    assert isinstance(family, Kernel)
    return family


def can_run(backend: str) -> bool:
    """Whether a kernel family of the backend has an implementation; foreign libraries are predicted for only."""
    return any(_family(reference).implementation is not None for name, reference in KERNELS.items()
               if _may_run(name, backend) and backend in _family(reference).backends)


def can_compile(device: Device) -> bool:
    """Whether a kernel family with an implementation is for the device."""
    families = map(_family, table(device.backend).values())
    return any(family.implementation is not None and family.is_for(device) for family in families)


def kernels_for(problem: Problem, device: Device) -> tuple[Kernel, ...]:
    """All kernel families that solve the problem on the device, in table order; there may be none."""
    candidates = [kernel(name) for name in table(device.backend)]
    return tuple(family for family in candidates if family.why_not(problem, device) is None)
