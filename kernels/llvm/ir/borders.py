"""Borders: the filter taps that fall on zero padding, which tiles at the ends of a row leave out."""

from __future__ import annotations

from dataclasses import dataclass

Taps = tuple[tuple[int, ...], ...]  # for every filter column: the pixels of the tile to which it applies


@dataclass(frozen=True, slots=True)
class Borders:
    """Zero padding that tiles leave out. A tile is one row high; only the first and last of a row reach padding."""

    left: int  # columns of padding before the first pixel's first tap
    right: int  # columns from the input's last to the last pixel's last tap
    stride: int
    dilation: int
    whole: bool  # a tile covers a whole row

    def taps(self, s: int, tile_w: int, left: bool, right: bool) -> Taps:
        """The pixels to which each filter column applies, in a tile at the given ends of its row."""
        def inside(pixel: int, column: int) -> bool:
            begin = pixel * self.stride + column * self.dilation
            end = (tile_w - 1 - pixel) * self.stride + (s - 1 - column) * self.dilation
            return (not left or begin >= self.left) and (not right or end >= self.right)

        return tuple(tuple(pixel for pixel in range(tile_w) if inside(pixel, column)) for column in range(s))
