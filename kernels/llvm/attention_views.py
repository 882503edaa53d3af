"""AttentionViews: the steps through memory of q, k, v, y and the mask, which may be slices of wider tensors."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import TypeAlias

from seqtune.errors import KernelError

from ..problem import Problem

Steps: TypeAlias = tuple[int, int, int]  # elements from one sequence, head and token to the next

SIZES = ("heads", "group", "q_len", "kv_len", "head_dim", "value_dim")
FIELDS = (*(f"{name}_{step}" for name in "qkvy" for step in ("image", "head", "token")),
          "mask_image", "mask_head", "mask_row", *SIZES, "scale")


@dataclass(frozen=True, slots=True)
class AttentionViews:
    """Steps in elements. The numbers of a token's head are contiguous, as are the keys of a row of the mask."""

    q: Steps
    k: Steps
    v: Steps
    y: Steps
    mask: Steps  # from one sequence, head and query to the next; 0: shared
    scale: float  # factor on the scores
    y_element: str | None = None  # "fp32" or "bf16": how y is stored; None is the problem's dtype

    def check_single(self, family: str) -> None:
        """Raise KernelError if y is stored in another element than fp32, for a family that writes fp32 only."""
        if self.y_element not in (None, "fp32"):
            raise KernelError(f"{family} writes fp32 only, not {self.y_element:.20}")

    @classmethod
    def of(cls, problem: Problem) -> AttentionViews:
        """The views of the problem's own operands. Raises ProblemError if a size is unknown."""
        heads, kv_heads, q_len, kv_len, dim, value_dim = (
            problem.size(name) for name in ("heads", "kv_heads", "q_len", "kv_len", "head_dim", "value_dim"))

        def steps(count: int, length: int, width: int) -> Steps:
            image = count * length * width
            return (image, length * width, width) if problem["layout"] == "heads" else (image, width, count * width)

        mask = {"none": (0, 0, 0), "keys": (kv_len, 0, 0), "scores": (0, q_len * kv_len, kv_len)}
        return cls(steps(heads, q_len, dim), steps(kv_heads, kv_len, dim), steps(kv_heads, kv_len, value_dim),
                   steps(heads, q_len, value_dim), mask[str(problem["mask"])], 1 / math.sqrt(dim))

    def arguments(self, problem: Problem) -> dict[str, int]:
        """The launch arguments of FIELDS by name."""
        steps = [*self.q, *self.k, *self.v, *self.y, *self.mask]
        sizes = [problem.size(name) for name in SIZES]
        bits = int(struct.unpack("<I", struct.pack("<f", self.scale))[0])
        return dict(zip(FIELDS, [*steps, *sizes, bits], strict=True))
