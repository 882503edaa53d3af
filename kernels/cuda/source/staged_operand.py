"""StagedOperand: a matrix in one stage of the ring, as bulk tensor copies write it and products of a warpgroup read it.

Source: PTX ISA 8.x, "Asynchronous Warpgroup Level Matrix Shared Memory Layout", "Matrix Descriptor Format" and
"Tensors: Swizzling Modes".
"""

from __future__ import annotations

from dataclasses import dataclass

ATOM = 8  # rows after which a swizzle repeats
SWIZZLES = {128: 1, 64: 2, 32: 3}  # bytes of a row -> the descriptor's layout type
ELEMENT = 2  # bytes


@dataclass(frozen=True, slots=True)
class StagedOperand:
    """One matrix in a stage: `width` rows (of A) or columns (of B) by `depth`, in parts whose rows are swizzled."""

    width: int
    depth: int
    across: bool  # neighbours along the width lie side by side ("MN-major"), not neighbours along the depth
    share: int  # the part of the width that one block of a cluster fetches

    @property
    def span(self) -> int:
        """Elements of a swizzled row: the most of 64, 32 or 16 that divides the axis whose neighbours are adjacent."""
        axis = self.share if self.across else self.depth
        return next(span for span in (64, 32, 16) if axis % span == 0)

    @property
    def row(self) -> int:
        """Bytes of a swizzled row."""
        return self.span * ELEMENT

    @property
    def bytes(self) -> int:
        """Bytes of a stage's tile."""
        return self.width * self.depth * ELEMENT

    @property
    def box(self) -> tuple[int, int]:
        """The elements that one copy moves: along the contiguous axis, and along the other."""
        return (self.span, self.depth if self.across else self.share)

    @property
    def copies(self) -> int:
        """The number of copies of a stage that one block makes."""
        return (self.share if self.across else self.depth) // self.span

    @property
    def part(self) -> int:
        """Bytes between one copy's rows and the next one's."""
        return self.row * (self.depth if self.across else self.width)

    @property
    def descriptor(self) -> int:
        """The descriptor but for its address: the layout type, and in units of 16 bytes the offsets between atoms."""
        leading = self.part if self.across else 16  # ignored where the depth is adjacent
        return SWIZZLES[self.row] << 62 | (ATOM * self.row // 16) << 32 | (leading // 16) << 16

    def offset(self, width: int, depth: int) -> int:
        """The offset in bytes of a part that begins at an element; both are multiples of the instruction's shape."""
        if self.across:
            return width // self.span * self.part + depth * self.row
        return depth // self.span * self.part + width * self.row + depth % self.span * ELEMENT
