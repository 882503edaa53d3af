"""QueryTile: attention of a tile of queries, which are the lanes of vectors, so that no step works across lanes.

For each block of keys: the scores of `rows` keys at a time in registers (keys are read in place, a number at a time;
queries were transposed and scaled before); then the weights e^(score - largest); then the sums of values times weights,
`rows` columns of the values at a time. Sums of earlier blocks are scaled when a larger score appears [M. Milakov,
N. Gimelshein, "Online normalizer calculation for softmax", 2018; T. Dao et al., "FlashAttention", NeurIPS 2022].

A tile's scratch holds, each `lanes` floats wide: its state (the largest scores, those before this block, the sums of
weights, the factors of earlier sums), queries, outputs, and scores of a block with `head` rows before it, which the
overlap of the first keys fills. With a mask for each score, it holds the transposed mask like the scores.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...attention_views import FIELDS as VIEWS
from ...text.writer import Writer, zero_floats
from .weights import LOWEST, constant, larger, number, weight

# `v_step`: floats from one value to the next as the tile reads them; `mask`: its address, if there is one.
FIELDS = (*VIEWS, "v_step", "block", "threads", "tasks", "piece", "whole_tiles", "tiles", "copies_at", "kv_heads",
          "mask")
STATES = 4  # rows of the state: largest, before, sum, factor
TILE = "ptr %q, ptr %k, ptr %v, ptr %mask, ptr %y, ptr %a, ptr %scratch, i64 %first"
SCORES = "ptr %q, ptr %k, ptr %s, ptr %state, i64 %passes, ptr %mask, i64 %key, i64 %first"
WEIGHTS = "ptr %s, ptr %state, i64 %count"
_VALUES = "ptr %s, ptr %v, ptr %o, ptr %factors, i64 %count, i64 %v_step, i64 %tiles"


@dataclass(frozen=True, slots=True)
class QueryTile:
    """The numbers that determine the text of one tile."""

    vector: int
    vectors: int
    rows: int  # keys, or columns of the values, in registers at a time
    unroll: int  # numbers of a key in the innermost loop's body
    key_step: int  # floats from one key to the next
    columns_rest: int  # columns of the values left over by tiles of `rows`
    mask: str
    causal: bool

    @property
    def lanes(self) -> int:
        """The number of queries."""
        return self.vector * self.vectors

    @property
    def kind(self) -> str:
        """A vector's type."""
        return f"<{self.vector} x float>"

    @property
    def spare(self) -> int:
        """The rows after the scores of a block."""
        return 0

    @property
    def to_rows(self) -> str:
        """The function that writes the outputs."""
        return "seqtune_to_rows"

    @property
    def head(self) -> int:
        """The rows before the scores of a block, for keys before the block that are computed with its first keys."""
        return max(self.rows, self.vector) - 1

    def scratch(self, head_dim: int, value_dim: int, block: int) -> int:
        """The number of floats of the scratch."""
        scores = (self.head + block + self.spare) * (2 if self.mask == "scores" else 1)
        return (STATES + head_dim + value_dim + scores) * self.lanes

    @property
    def packs(self) -> bool:
        """Whether a head's keys and values are packed before its tiles."""
        return False

    @property
    def declarations(self) -> tuple[str, ...]:
        """Declarations of what its functions call beyond those of all tiles."""
        return ()

    def kind_of(self, operand: str) -> str:
        """The type of an operand's numbers in memory."""
        return "float"

    def functions(self) -> str:
        """The text of `tile<vectors>` and of the functions that it calls."""
        return "\n".join([self._scores(), self._weights(), self._values(), self._tile()])

    def _row(self, write: Writer, row: str) -> list[str]:
        """Load the vectors of one row."""
        return [write.load(self.kind, write.at(row, index * self.vector)) for index in range(self.vectors)]

    def _product(self, write: Writer, number: str, vector: str, sums: str) -> str:
        """Add a number of a key or value, in all lanes, times a vector to sums."""
        return write.fma(self.vector, number, vector, sums)

    def _scores(self, parameters: str = SCORES) -> str:
        """Compute the scores of `rows` keys from `key` on, and the largest scores."""
        write = Writer()
        zeros = [(self.kind, "zeroinitializer")] * (self.rows * self.vectors)

        def step(values: list[str]) -> list[str]:
            q, k, *sums = values
            for index in range(self.unroll):
                queries = self._row(write, write.at(q, index * self.lanes))
                for row in range(self.rows):
                    key = write.splat(self.vector, write.load("float", write.at(k, row * self.key_step + index)))
                    for column, query in enumerate(queries):
                        position = row * self.vectors + column
                        sums[position] = self._product(write, key, query, sums[position])
            return [write.at(q, self.unroll * self.lanes), write.at(k, self.unroll), *sums]

        sums = write.repeat("%passes", [("ptr", "%q"), ("ptr", "%k"), *zeros], step)[2:]
        largest = self._row(write, "%state")
        for row in range(self.rows):
            scores = self._visible(write, row, self._masked(write, row, sums[row * self.vectors:][:self.vectors]))
            for column, score in enumerate(scores):
                write.store(self.kind, score, write.at("%s", row * self.lanes + column * self.vector))
                largest[column] = larger(write, self.vector, score, largest[column])
        for column, value in enumerate(largest):
            write.store(self.kind, value, write.at("%state", column * self.vector))
        return write.function(f"internal void @scores{self.vectors}({parameters}) noinline")

    def _masked(self, write: Writer, row: int, scores: list[str]) -> list[str]:
        if self.mask == "none":
            return scores
        if self.mask == "keys":
            added = [write.splat(self.vector, write.load("float", write.at("%mask", row)))] * self.vectors
        else:
            added = self._row(write, write.at("%mask", row * self.lanes))
        return [write.let(f"fadd {self.kind} {score}, {value}") for score, value in zip(scores, added, strict=True)]

    def _visible(self, write: Writer, row: int, scores: list[str]) -> list[str]:
        """Replace scores of keys after the query by -infinity."""
        if not self.causal:
            return scores
        whole = f"<{self.vector} x i64>"
        ahead = write.i64("sub", write.add("%key", row), "%first")  # keys after the first query
        filled = write.let(f"insertelement {whole} poison, i64 {ahead}, i32 0")
        splat = write.let(f"shufflevector {whole} {filled}, {whole} poison, <{self.vector} x i32> zeroinitializer")
        chosen = []
        for column, score in enumerate(scores):
            queries = ", ".join(f"i64 {column * self.vector + lane}" for lane in range(self.vector))
            hidden = write.let(f"icmp sgt {whole} {splat}, <{queries}>")
            chosen.append(write.let(f"select <{self.vector} x i1> {hidden}, {self.kind} "
                                    f"{constant(self.vector, float('-inf'))}, {self.kind} {score}"))
        return chosen

    def _weights(self) -> str:
        """Turn the scores of `count` keys into weights; add them to the sums."""
        write = Writer()
        state = [write.at("%state", index * self.lanes) for index in range(STATES)]
        largest, before, sums = (self._row(write, row) for row in state[:3])
        for column in range(self.vectors):
            factor = weight(write, self.vector, write.let(f"fsub {self.kind} {before[column]}, {largest[column]}"))
            write.store(self.kind, factor, write.at(state[3], column * self.vector))
            write.store(self.kind, largest[column], write.at(state[1], column * self.vector))
            sums[column] = write.let(f"fmul {self.kind} {sums[column]}, {factor}")

        def key(values: list[str]) -> list[str]:
            row, *sums = values
            for column, score in enumerate(self._row(write, row)):
                value = weight(write, self.vector, write.let(f"fsub {self.kind} {score}, {largest[column]}"))
                write.store(self.kind, value, write.at(row, column * self.vector))
                sums[column] = write.let(f"fadd {self.kind} {sums[column]}, {value}")
            return [write.at(row, self.lanes), *sums]

        _, *sums = write.repeat("%count", [("ptr", "%s"), *((self.kind, value) for value in sums)], key)
        for column, value in enumerate(sums):
            write.store(self.kind, value, write.at(state[2], column * self.vector))
        return write.function(f"internal void @weights{self.vectors}({WEIGHTS}) noinline")

    def _values(self) -> str:
        """Scale the outputs and add `count` values times their weights, `rows` columns at a time."""
        write = Writer()

        def columns(o: str, v: str, count: int) -> None:
            factors = self._row(write, "%factors")
            sums = [(self.kind, write.let(f"fmul {self.kind} {value}, {factors[column]}")) for row in range(count)
                    for column, value in enumerate(self._row(write, write.at(o, row * self.lanes)))]

            def key(values: list[str]) -> list[str]:
                s, v, *sums = values
                weights = self._row(write, s)
                for row in range(count):
                    value = write.splat(self.vector, write.load("float", write.at(v, row)))
                    for column, scale in enumerate(weights):
                        position = row * self.vectors + column
                        sums[position] = self._product(write, value, scale, sums[position])
                return [write.at(s, self.lanes), write.at(v, "%v_step"), *sums]

            done = write.repeat("%count", [("ptr", "%s"), ("ptr", v), *sums], key)[2:]
            for index, value in enumerate(done):
                write.store(self.kind, value, write.at(o, index * self.vector))

        with write.loop(0, "%tiles") as tile:
            columns(write.at("%o", write.mul(tile, self.rows * self.lanes)),
                    write.at("%v", write.mul(tile, self.rows)), self.rows)
        if self.columns_rest:
            columns(write.at("%o", write.mul("%tiles", self.rows * self.lanes)),
                    write.at("%v", write.mul("%tiles", self.rows)), self.columns_rest)
        return write.function(f"internal void @values{self.vectors}({_VALUES}) noinline")

    def _tile(self) -> str:
        """Compute the tile from its first query on: q, y and the mask begin there, k and v at the first key."""
        write = Writer(FIELDS)
        names = ("q_token", "y_token", "v_step", "mask_row", "kv_len", "head_dim", "value_dim", "block", "scale")
        size = {name: write.argument(name) for name in names}
        q, width = write.at("%scratch", STATES * self.lanes), self._width(write, size["head_dim"])
        o = write.at(q, write.mul(width, self.lanes))
        outputs = write.mul(size["value_dim"], self.lanes)
        s = write.at(write.at(o, outputs), self.head * self.lanes)
        mask = write.at(s, write.mul(write.add(size["block"], self.head + self.spare), self.lanes))
        score_factor, power_factor = self._transpose_queries(write, size, q, width)
        for column in range(2 * self.vectors):
            write.store(self.kind, constant(self.vector, LOWEST), write.at("%scratch", column * self.vector))
        zero_floats(write, write.at("%scratch", 2 * self.lanes), 2 * self.lanes)
        zero_floats(write, o, outputs)
        keys = size["kv_len"]
        if self.causal:
            seen = write.i64("smax", write.add("%first", self.lanes), self.head + 1)
            keys = write.i64("smin", keys, seen)
        passes = write.i64("udiv", width, self.unroll)
        tiles = write.i64("udiv", size["value_dim"], self.rows)
        factors = write.at("%scratch", 3 * self.lanes)
        with write.loop(0, keys, size["block"]) as begin:
            end = write.i64("smin", write.add(begin, size["block"]), keys)
            count = write.i64("sub", end, begin)
            if self.mask == "scores":
                self._transpose_mask(write, size["mask_row"], begin, end, mask)
            with write.loop(begin, end, self.rows) as start:
                key = write.i64("smin", start, write.i64("sub", end, self.rows))
                row = write.mul(write.i64("sub", key, begin), self.lanes)
                added = {"none": "null", "keys": write.at("%mask", key), "scores": write.at(mask, row)}[self.mask]
                k = write.at("%k", write.mul(key, self.key_step))
                write.do(f"call void @scores{self.vectors}(ptr {q}, ptr {k}, ptr {write.at(s, row)}, ptr %scratch, "
                         f"i64 {passes}, ptr {added}, i64 {key}, i64 %first{score_factor})")
            write.do(f"call void @weights{self.vectors}(ptr {s}, ptr %scratch, i64 {count}{power_factor})")
            v = write.at("%v", write.mul(self._value_rows(write, begin), size["v_step"]))
            write.do(f"call void @values{self.vectors}(ptr {s}, ptr {v}, ptr {o}, ptr {factors}, "
                     f"i64 {self._value_rows(write, count)}, i64 {size['v_step']}, i64 {tiles})")
        self._invert(write)
        write.do(f"call void @{self.to_rows}(ptr {o}, ptr {factors}, ptr %y, i64 {size['y_token']}, "
                 f"i64 {size['value_dim']}, i64 {self.vectors})")
        return write.function(f"internal void @tile{self.vectors}({TILE}) noinline")

    def _width(self, write: Writer, head_dim: str) -> str:
        """The vectors of a transposed query."""
        return head_dim

    def _value_rows(self, write: Writer, keys: str) -> str:
        """The rows of values of so many keys."""
        return keys

    def _transpose_queries(self, write: Writer, size: dict[str, str], q: str, width: str) -> tuple[str, str]:
        """Transpose the queries, and scale them; returns further arguments of `scores` and of `weights`."""
        bits = write.let(f"trunc i64 {size['scale']} to i32")
        scale = write.let(f"bitcast i32 {bits} to float")
        write.do(f"call void @seqtune_to_lanes(ptr %q, i64 {size['q_token']}, ptr {q}, i64 {width}, "
                 f"float {scale}, i64 {self.vectors})")
        return "", ""

    def _transpose_mask(self, write: Writer, mask_row: str, begin: str, end: str, mask: str) -> None:
        """Transpose the mask of the keys that the scores of this block visit, `vector` keys at a time."""
        start = write.i64("smin", begin, write.i64("sub", end, self.rows))
        with write.loop(start, end, self.vector) as visited:
            key = write.i64("smin", visited, write.i64("sub", end, self.vector))
            to = write.at(mask, write.mul(write.i64("sub", key, begin), self.lanes))
            write.do(f"call void @seqtune_to_lanes(ptr {write.at('%mask', key)}, i64 {mask_row}, ptr {to}, "
                     f"i64 {self.vector}, float {number(1.0)}, i64 {self.vectors})")

    def _invert(self, write: Writer) -> None:
        """Make the factors 1 / sum; 0 where no key was visible, as PyTorch's result is."""
        for column in range(self.vectors):
            sums = write.load(self.kind, write.at("%scratch", 2 * self.lanes + column * self.vector))
            empty = write.let(f"fcmp oeq {self.kind} {sums}, zeroinitializer")
            inverse = write.let(f"fdiv {self.kind} {constant(self.vector, 1.0)}, {sums}")
            value = write.let(f"select <{self.vector} x i1> {empty}, {self.kind} zeroinitializer, "
                              f"{self.kind} {inverse}")
            write.store(self.kind, value, write.at("%scratch", 3 * self.lanes + column * self.vector))
