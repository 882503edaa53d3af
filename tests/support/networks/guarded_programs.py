"""Programs between guard pages: `python -m tests.support.networks.guarded_programs`. A mistake ends this process.

Operands, results, weights, workspaces and the memory between the steps all end where a page begins that may be neither
read nor written, or begin behind one. What is to be written holds NaNs before. The line printed last names what was
run then.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seqtune.kernels.launches.implementation import Array
from seqtune.networks.program.bound_kernels import KernelBinder, Scratch, SharedConstants
from seqtune.networks.program.device_threads import binder_of, device_for_threads
from seqtune.tuner.backends.image_cache import ImageCache
from seqtune.tuner.backends.llvm.compiler import Compiler
from tests.networks.test_networks import Block, Dense, Embedded, Excitation, InvertedResidual, Norms, Padded, Shuffle
from tests.support.guarded import guarded
from tests.support.networks.default_programs import default_choices, program_of
from tests.support.torch_models import random_norms

MODELS: Mapping[str, tuple[nn.Module, tuple[int, ...]]] = {
    "inverted residual": (InvertedResidual(), (1, 8, 9, 7)), "excitation": (Excitation(), (2, 16, 6, 5)),
    "dense": (Dense(), (1, 8, 14, 12)), "shuffle": (Shuffle(), (1, 16, 7, 5)), "padded": (Padded(), (1, 3, 12, 12)),
    "transformer": (Block(True), (2, 9, 24)), "norms": (Norms(), (2, 3, 20)), "embedding": (Embedded(), (2, 9))}


class GuardedScratch(Scratch):
    """Exactly as much memory as is asked for, with NaNs in it, at a guard page."""

    def __init__(self, at_end: bool) -> None:
        super().__init__()
        self.at_end = at_end
        self.taken: list[Array] = []

    def take(self, floats: int) -> Array:
        """An array of its own."""
        self.taken.append(guarded((floats,), self.at_end))
        return self.taken[-1]


class GuardedConstants(SharedConstants):
    """A copy of every constant at a guard page."""

    def __init__(self, at_end: bool) -> None:
        super().__init__()
        self.at_end = at_end

    def keep(self, array: NDArray[Any], given: bool = False) -> NDArray[Any]:
        """A copy of its own."""
        copy = guarded(array.shape, self.at_end)
        np.copyto(copy, array)
        return copy


def at_guard_page(tensor: Tensor, at_end: bool) -> Tensor:
    """A dense tensor copied to a guard page; whole numbers stay where they are."""
    if not tensor.is_floating_point():
        return tensor
    copy = torch.from_numpy(guarded((tensor.numel(),), at_end)).as_strided(tensor.shape, tensor.stride())
    return copy.copy_(tensor)


def run(name: str, model: nn.Module, shape: tuple[int, ...], family: int, at_end: bool) -> None:
    """Compare all results of one program with PyTorch's."""
    print(name, "family", family, "before" if at_end else "behind", "a guard page", flush=True)
    device = device_for_threads(1)
    binder = KernelBinder(device, Compiler(device.instruction_set, ImageCache("object")), binder_of(device).threads,
                          partial(GuardedScratch, at_end), GuardedConstants(at_end))
    example = torch.randint(50, shape) if name == "embedding" else torch.randn(shape)
    random_norms(model.eval())
    program = program_of(model, [example], binder, default_choices(binder, family))
    x = at_guard_page(torch.randint(50, shape) if name == "embedding" else torch.randn(shape), at_end)
    with torch.no_grad():
        answer = model(x)
    expected = answer if isinstance(answer, tuple) else (answer,)
    results = [at_guard_page(torch.full_like(tensor, torch.nan), at_end) for tensor in expected]
    program.program.run([x.data_ptr()], [tensor.data_ptr() for tensor in results])
    for result, tensor in zip(results, expected, strict=True):
        limit = 1e-4 * float(tensor.abs().max())
        assert torch.allclose(result, tensor, rtol=0, atol=limit), name


def main() -> None:
    """All models, every second one with another family and at the other end of its pages."""
    torch.manual_seed(0)
    for number, (name, (model, shape)) in enumerate(MODELS.items()):
        run(name, model, shape, number % 2, number % 2 == 0)
    print("done")


if __name__ == "__main__":
    main()
