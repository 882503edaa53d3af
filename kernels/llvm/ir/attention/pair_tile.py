"""PairTile: a QueryTile whose instructions multiply pairs of bf16 numbers and add both products to a sum in fp32.

Scores multiply two neighbouring numbers of a query and of a key, outputs the weights of two neighbouring keys and their
values. Keys and values of a head are packed as such pairs before its tiles (`pairs.py`); queries are transposed in
pairs. Scores, largest scores and sums are in fp32. A weight is rounded to bf16, and the sum of the weights is that of
the rounded ones, so that they add up to 1.

A query is not scaled, as it would be rounded again: the scale is part of the exponential function's or of the mask's.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...text.elements import Element
from ...text.writer import Writer
from .pairs import BF16, DECLARATIONS, declare_dot, dot, interleaved, ones
from .query_tile import SCORES, STATES, WEIGHTS, QueryTile
from .weights import LEAST_NORMAL, LOG2_E, constant, declare_powers, number, power_of_two


@dataclass(frozen=True, slots=True)
class PairTile(QueryTile):
    """The numbers that determine the text of one tile; `unroll` and `key_step` count pairs."""

    y: Element = BF16

    @property
    def packs(self) -> bool:
        """Whether a head's keys and values are packed before its tiles."""
        return True

    @property
    def declarations(self) -> tuple[str, ...]:
        """Declarations of what its functions call beyond those of all tiles."""
        return DECLARATIONS, declare_dot(self.vector), declare_powers(self.vector)

    @property
    def spare(self) -> int:
        """The rows after the scores of a block: the partner of the last one of an odd number of keys."""
        return 1

    @property
    def to_rows(self) -> str:
        """The function that writes the outputs."""
        return "seqtune_to_rows" if self.y.dtype == "fp32" else "seqtune_to_bf16_rows"

    def kind_of(self, operand: str) -> str:
        """The type of an operand's numbers in memory."""
        return {"mask": "float", "y": self.y.kind}.get(operand, "i16")

    def scratch(self, head_dim: int, value_dim: int, block: int) -> int:
        """The number of floats of the scratch."""
        return QueryTile.scratch(self, head_dim // 2, value_dim, block)

    def _product(self, write: Writer, number: str, vector: str, sums: str) -> str:
        """Add both products of pairs to sums."""
        return dot(write, self.vector, sums, number, vector)

    def _scores(self, parameters: str = f"{SCORES}, float %scale") -> str:
        """Compute scores, which are scaled if there is a mask."""
        return QueryTile._scores(self, parameters)

    def _masked(self, write: Writer, row: int, scores: list[str]) -> list[str]:
        if self.mask == "none":
            return scores
        scale = write.splat(self.vector, "%scale")
        return QueryTile._masked(self, write, row, [
            write.let(f"fmul {self.kind} {score}, {scale}") for score in scores])

    def _weights(self) -> str:
        """Turn the scores of `count` keys into pairs of weights, in their place; add them to the sums."""
        write = Writer()
        state = [write.at("%state", index * self.lanes) for index in range(STATES)]
        largest, before, sums = (self._row(write, row) for row in state[:3])
        scale = write.splat(self.vector, "%scale")

        def weight(score: str, column: int) -> str:
            difference = write.let(f"fsub {self.kind} {score}, {largest[column]}")
            return power_of_two(write, self.vector, write.let(f"fmul {self.kind} {difference}, {scale}"))

        after = write.at("%s", write.mul("%count", self.lanes))
        for column in range(self.vectors):
            factor = weight(before[column], column)
            write.store(self.kind, factor, write.at(state[3], column * self.vector))
            write.store(self.kind, largest[column], write.at(state[1], column * self.vector))
            sums[column] = write.let(f"fmul {self.kind} {sums[column]}, {factor}")
            write.store(self.kind, constant(self.vector, float("-inf")), write.at(after, column * self.vector))

        def pair(values: list[str]) -> list[str]:
            row, to, *sums = values
            first, second = (self._row(write, write.at(row, index * self.lanes)) for index in range(2))
            for column in range(self.vectors):
                both = interleaved(write, self.vector, weight(first[column], column), weight(second[column], column))
                write.store(self.kind, both, write.at(to, column * self.vector))
                sums[column] = dot(write, self.vector, sums[column], both, ones(self.vector))
            return [write.at(row, 2 * self.lanes), write.at(to, self.lanes), *sums]

        _, _, *sums = write.repeat(self._value_rows(write, "%count"), [
            ("ptr", "%s"), ("ptr", "%s"), *((self.kind, value) for value in sums)], pair)
        for column, value in enumerate(sums):
            write.store(self.kind, value, write.at(state[2], column * self.vector))
        return write.function(f"internal void @weights{self.vectors}({WEIGHTS}, float %scale) noinline")

    def _width(self, write: Writer, head_dim: str) -> str:
        """The pairs of a query."""
        return write.i64("udiv", head_dim, 2)

    def _value_rows(self, write: Writer, keys: str) -> str:
        """The pairs of so many keys, the last of which may have no partner."""
        return write.i64("udiv", write.add(keys, 1), 2)

    def _transpose_queries(self, write: Writer, size: dict[str, str], q: str, width: str) -> tuple[str, str]:
        """Transpose the queries in pairs, with the sign of the scale, so that the largest score has the largest weight.

        Returns the scale of scores with a mask, and the factor of their differences as powers of 2.
        """
        bits = write.let(f"trunc i64 {size['scale']} to i32")
        sign = write.let(f"and i32 {bits}, {-(1 << 31)}")
        scale = write.let(f"bitcast i32 {write.let(f'xor i32 {bits}, {sign}')} to float")
        write.do(f"call void @seqtune_pairs_to_lanes(ptr %q, i64 {size['q_token']}, ptr {q}, i64 {width}, "
                 f"i32 {sign}, i64 {self.vectors})")
        power = number(LOG2_E)
        if self.mask == "none":
            power = write.let(f"fmul float {scale}, {power}")
            tiny = write.let(f"fcmp olt float {power}, {number(LEAST_NORMAL)}")  # 0 times -infinity is no number
            power = write.let(f"select i1 {tiny}, float {number(LEAST_NORMAL)}, float {power}")
        return f", float {scale}", f", float {power}"
