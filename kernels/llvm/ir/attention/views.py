"""AttentionViews: the steps through memory of q, k, v, y and the mask, so that slices of wider tensors are served."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import TypeAlias

from ....problem import Problem

Steps: TypeAlias = tuple[int, int, int]  # floats from one sequence, head and token to the next

SIZES = ("heads", "group", "q_len", "kv_len", "head_dim", "value_dim")
FIELDS = (*(f"{name}_{step}" for name in "qkvy" for step in ("image", "head", "token")),
          "mask_image", "mask_head", "mask_row", *SIZES, "scale")


@dataclass(frozen=True, slots=True)
class AttentionViews:
    """Steps in floats; the numbers of a token's head are neighbours, and the keys of a row of the mask are."""

    q: Steps
    k: Steps
    v: Steps
    y: Steps
    mask: Steps  # from one sequence, head and query to the next; 0: shared
    scale: float  # of the scores

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
