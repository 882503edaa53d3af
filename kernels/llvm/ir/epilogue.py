"""Epilogue of a tile as LLVM IR: bias, activation and stores of its sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .writer import Writer


@dataclass(frozen=True, slots=True)
class Store:
    """Sums are ordered [row][pixel][vector]; each is `vector` output channels of one pixel."""

    vector: int
    vectors: int
    tile_h: int
    tile_w: int
    channels_last: bool  # the output's channels are contiguous in memory, else its pixels are
    bias: bool
    relu: bool

    @property
    def kind(self) -> str:
        """A vector's type."""
        return f"<{self.vector} x float>"

    def write(self, write: Writer, sums: Sequence[str], step: Mapping[str, str]) -> None:
        """Bias, activation and stores to %y; `step` holds y_row, y_pixel and y_channel."""
        sums = self._finished(write, sums)
        row = "%y"
        for i in range(self.tile_h):
            row = write.at(row, step["y_row"]) if i else row
            row_sums = sums[i * self.tile_w * self.vectors:(i + 1) * self.tile_w * self.vectors]
            if self.channels_last:
                self._pixels(write, row, row_sums, step["y_pixel"])
            else:
                self._channels(write, row, row_sums, step["y_channel"])

    def _finished(self, write: Writer, sums: Sequence[str]) -> list[str]:
        biases = [write.load(self.kind, write.at("%bias", vector * self.vector))
                  for vector in range(self.vectors)] if self.bias else []
        finished = []
        for index, value in enumerate(sums):
            if self.bias:
                value = write.let(f"fadd {self.kind} {value}, {biases[index % self.vectors]}")
            finished.append(write.relu(self.vector, value) if self.relu else value)
        return finished

    def _pixels(self, write: Writer, pixel: str, sums: Sequence[str], y_pixel: str) -> None:
        for j in range(self.tile_w):
            pixel = write.at(pixel, y_pixel) if j else pixel
            for vector in range(self.vectors):
                write.store(self.kind, sums[j * self.vectors + vector], write.at(pixel, vector * self.vector))

    def _channels(self, write: Writer, channel: str, sums: Sequence[str], y_channel: str) -> None:
        for vector in range(self.vectors):
            for index, pieces in enumerate(self._transposed(write, sums[vector::self.vectors])):
                channel = write.at(channel, y_channel) if vector or index else channel
                offset = 0
                for width, piece in pieces:
                    write.store(f"<{width} x float>", piece, write.at(channel, offset))
                    offset += width

    def _transposed(self, write: Writer, pixels: Sequence[str]) -> list[list[tuple[int, str]]]:
        """Transpose sums: for each channel, the pixels' values as (width, value) pieces.

        Interleaving the halves of [pixel][channel] log2(pixels) times gives [channel][pixel].
        """
        lanes, wide = self.vector, 1
        while wide < self.tile_w:
            wide *= 2
        vectors = [*pixels, *["poison"] * (wide - self.tile_w)]
        mask = [lane // 2 + (lanes if lane % 2 else 0) for lane in range(2 * lanes)]
        for _ in range(wide.bit_length() - 1):
            apart = []
            for low, high in zip(vectors[:wide // 2], vectors[wide // 2:], strict=True):
                if lanes == 1 or low == high == "poison":
                    apart += [low, high]
                else:
                    apart += [write.shuffle(lanes, low, high, half) for half in (mask[:lanes], mask[lanes:])]
            vectors = apart
        rows: list[list[tuple[int, str]]] = []
        for channel in range(lanes):
            pieces, begin = [], channel * wide
            end = begin + self.tile_w
            while begin < end:
                index, offset = divmod(begin, lanes)
                width = min(lanes - offset, end - begin)
                pieces.append((width, vectors[index] if width == lanes else write.shuffle(
                    lanes, vectors[index], "poison", range(offset, offset + width))))
                begin += width
            rows.append(pieces)
        return rows
