"""DotRows: attention of few queries; the lanes of vectors are the numbers of a key, or of a value.

A task takes the keys of one head that all its queries share: a span of the keys, a block at a time, so that a block is
read from memory once for all queries of a group of heads. The scores of `keys` keys are products of vectors, summed
across lanes at once: log2 steps of halving. Where the keys of a head are divided into spans, each span stores its sums
of values, its largest score and its sum of weights, and `merge` combines them.

A task's scratch holds the scores of a block with `keys` numbers before it, rounded up to whole vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...text.writer import ENTRY, Writer, declarations, zero_floats
from ..tiling import write_piece
from .key_spans import FIELDS, VALUES, inverse_of, merge
from .weights import LOWEST, constant, larger, number, weight

_SCORES = "ptr %q, ptr %k, ptr %s, i64 %count, ptr %mask, i64 %hidden, ptr %a"
_VALUES = "ptr %s, ptr %v, ptr %o, float %factor, i64 %count, ptr %a"
HEAD = 16  # floats before the scores of a block, for keys before the block that are summed with its first keys


@dataclass(frozen=True, slots=True)
class DotRows:
    """The numbers that determine the text."""

    vector: int
    keys: int  # keys whose products are summed at once, at most `vector`
    columns: int  # vectors of columns of the values in registers
    unroll: int  # values in the innermost loop's body
    columns_rest: int  # vectors left over by groups of `columns`
    mask: str
    causal: bool
    divided: bool  # the keys of a head are divided into spans

    @property
    def kind(self) -> str:
        """A vector's type."""
        return f"<{self.vector} x float>"

    def text(self) -> str:
        """The text of the entries `attention` and, where keys are divided, `merge`."""
        return "\n".join([
            declarations(self.vector), *(
                f"declare float @llvm.vector.reduce.{name}.v{self.vector}f32({start}{self.kind})"
                for name, start in (("fadd", "float, "), ("fmax", ""))),
            self._scores(), self._values(), self._weights(), self._attention(),
            *([merge(self.vector)] if self.divided else [])])

    def _scores(self) -> str:
        """Write the scores of `count` keys; keys from the number `hidden` on are hidden (-infinity)."""
        write = Writer(FIELDS)
        step, dim, bits = (write.argument(name) for name in ("k_token", "head_dim", "scale"))
        scale = write.let(f"bitcast i32 {write.let(f'trunc i64 {bits} to i32')} to float")
        scales, passes = write.splat(self.keys, scale), write.i64("udiv", dim, self.vector)
        kind = f"<{self.keys} x float>"
        last = write.i64("sub", "%count", self.keys)
        with write.loop(0, "%count", self.keys) as start:
            index = write.i64("smin", start, last)
            k = write.at("%k", write.mul(index, step))

            def numbers(values: list[str]) -> list[str]:
                q, key, *sums = values
                query, row = write.load(self.kind, q), key
                for position, sum_ in enumerate(sums):
                    row = write.at(row, step) if position else row
                    sums[position] = write.fma(self.vector, write.load(self.kind, row), query, sum_)
                return [write.at(q, self.vector), write.at(key, self.vector), *sums]

            zeros = [(self.kind, "zeroinitializer")] * self.keys
            sums = write.repeat(passes, [("ptr", "%q"), ("ptr", k), *zeros], numbers)[2:]
            scores = write.let(f"fmul {kind} {_lane_sums(write, self.vector, sums)}, {scales}")
            if self.mask != "none":
                scores = write.let(f"fadd {kind} {scores}, {write.load(kind, write.at('%mask', index))}")
            if self.causal:
                scores = self._visible(write, index, scores)
            write.store(kind, scores, write.at("%s", index))
        return write.function(f"internal void @scores({_SCORES}) noinline")

    def _visible(self, write: Writer, index: str, scores: str) -> str:
        whole = f"<{self.keys} x i64>"
        left = write.i64("sub", "%hidden", index)
        first = write.let(f"insertelement {whole} poison, i64 {left}, i32 0")
        splat = write.let(f"shufflevector {whole} {first}, {whole} poison, <{self.keys} x i32> zeroinitializer")
        keys = ", ".join(f"i64 {key}" for key in range(self.keys))
        shown = write.let(f"icmp slt {whole} <{keys}>, {splat}")
        return write.let(f"select <{self.keys} x i1> {shown}, <{self.keys} x float> {scores}, "
                         f"<{self.keys} x float> {constant(self.keys, float('-inf'))}")

    def _weights(self) -> str:
        """Turn `count` scores into weights; the row's state is its largest score and its sum of weights.

        Returns the factor of sums over earlier keys. The last vector is filled up with -infinity.
        """
        write = Writer()
        lanes, kind = self.vector, self.kind
        write.store(kind, constant(lanes, float("-inf")), write.at("%s", "%count"))
        passes = write.i64("udiv", write.add("%count", lanes - 1), lanes)
        before = write.load("float", "%state")

        def look(values: list[str]) -> list[str]:
            s, largest = values
            return [write.at(s, lanes), larger(write, lanes, write.load(kind, s), largest)]

        start = write.splat(lanes, before)
        largest = write.repeat(passes, [("ptr", "%s"), (kind, start)], look)[1]
        limit = write.let(f"call float @llvm.vector.reduce.fmax.v{lanes}f32({kind} {largest})")
        limits = write.splat(lanes, limit)

        def turn(values: list[str]) -> list[str]:
            s, sums = values
            value = weight(write, lanes, write.let(f"fsub {kind} {write.load(kind, s)}, {limits}"))
            write.store(kind, value, s)
            return [write.at(s, lanes), write.let(f"fadd {kind} {sums}, {value}")]

        sums = write.repeat(passes, [("ptr", "%s"), (kind, "zeroinitializer")], turn)[1]
        added = write.let(f"call reassoc float @llvm.vector.reduce.fadd.v{lanes}f32(float 0.0, {kind} {sums})")
        factors = weight(write, lanes, write.let(f"fsub {kind} {start}, {limits}"))
        factor = write.let(f"extractelement {kind} {factors}, i32 0")
        total = write.at("%state", 1)
        scaled = write.let(f"fmul float {write.load('float', total)}, {factor}")
        write.store("float", write.let(f"fadd float {scaled}, {added}"), total)
        write.store("float", limit, "%state")
        write.store("float", factor, "%factor")
        return write.function("internal void @weights(ptr %s, ptr %state, i64 %count, ptr %factor) noinline")

    def _values(self) -> str:
        """Scale the outputs of a query and add `count` values times their weights."""
        write = Writer(FIELDS)
        step, dim = write.argument("v_token"), write.argument("value_dim")
        factor = write.splat(self.vector, "%factor")
        turns, left = write.i64("udiv", "%count", self.unroll), write.i64("urem", "%count", self.unroll)
        wide = self.columns * self.vector

        def columns(o: str, v: str, count: int) -> None:
            outputs = [write.at(o, index * self.vector) for index in range(count)]

            def add(keys: int, turns: str, s: str, v: str, sums: list[str]) -> list[str]:
                """Add `turns` times `keys` values to as many sets of sums."""
                def values(carried: list[str]) -> list[str]:
                    s, v, *sums = carried
                    row = v
                    for key in range(keys):
                        row = write.at(row, step) if key else row
                        scale = write.splat(self.vector, write.load("float", write.at(s, key)))
                        for index in range(count):
                            value = write.load(self.kind, write.at(row, index * self.vector))
                            position = key * count + index
                            sums[position] = write.fma(self.vector, scale, value, sums[position])
                    return [write.at(s, keys), write.at(row, step), *sums]

                return write.repeat(turns, [("ptr", s), ("ptr", v), *((self.kind, sum_) for sum_ in sums)], values)[2:]

            def keep(sums: list[str]) -> None:
                for index, pointer in enumerate(outputs):
                    total = sums[index]
                    for other in sums[index + count::count]:
                        total = write.let(f"fadd {self.kind} {total}, {other}")
                    write.store(self.kind, total, pointer)

            keep([write.let(f"fmul {self.kind} {write.load(self.kind, pointer)}, {factor}") for pointer in outputs])
            with write.when(write.let(f"icmp ne i64 {turns}, 0")):
                loaded = [write.load(self.kind, pointer) for pointer in outputs]
                keep(add(self.unroll, turns, "%s", v,
                         loaded + ["zeroinitializer"] * (count * (self.unroll - 1))))
            if self.unroll > 1:
                with write.when(write.let(f"icmp ne i64 {left}, 0")):
                    done = write.mul(turns, self.unroll)
                    loaded = [write.load(self.kind, pointer) for pointer in outputs]
                    keep(add(1, left, write.at("%s", done), write.at(v, write.mul(done, step)), loaded))

        tiles = write.i64("udiv", dim, wide)
        with write.loop(0, tiles) as tile:
            columns(write.at("%o", write.mul(tile, wide)), write.at("%v", write.mul(tile, wide)), self.columns)
        if self.columns_rest:
            columns(write.at("%o", write.mul(tiles, wide)), write.at("%v", write.mul(tiles, wide)), self.columns_rest)
        return write.function(f"internal void @values({_VALUES}) noinline")

    def _attention(self) -> str:
        """A task is a span of the keys of a head of k and v."""
        write = Writer(FIELDS)
        size = {name: write.argument(name) for name in FIELDS[:-1]}
        scratch = write_piece(write, size["threads"], size["tasks"], size["piece"])
        s = write.at(scratch, HEAD)
        factor = write.let("alloca float, align 4")
        mask = "null" if self.mask == "none" else write.let(f"inttoptr i64 {write.argument('mask')} to ptr")
        with write.loop("%begin", "%end") as task:
            span, across = write.i64("urem", task, size["spans"]), write.i64("udiv", task, size["spans"])
            head, image = write.i64("urem", across, size["kv_heads"]), write.i64("udiv", across, size["kv_heads"])
            first = write.mul(span, size["span"])
            end = write.i64("smin", write.add(first, size["span"]), size["kv_len"])
            k, v = (write.at(write.at(base, write.mul(image, size[f"{name}_image"])),
                             write.mul(head, size[f"{name}_head"])) for name, base in (("k", "%w"), ("v", "%bias")))
            partials = write.at(write.at("%workspace", size["partials_at"]),
                                write.mul(write.mul(task, size["rows"]), size["partial"]))

            def row_pointers(row: str) -> tuple[str, str, str, str, str]:
                """The query's number, and pointers to its q, mask, outputs and state."""
                q_head = write.add(write.mul(head, size["group"]), write.i64("udiv", row, size["q_len"]))
                query = write.i64("urem", row, size["q_len"])

                def at(base: str, name: str, step: str) -> str:
                    image_at = write.at(base, write.mul(image, size[f"{name}_image"]))
                    return write.at(write.at(image_at, write.mul(q_head, size[f"{name}_head"])),
                                    write.mul(query, size[f"{name}_{step}"]))

                state = write.at(partials, write.mul(row, size["partial"]))
                o = write.at(state, VALUES) if self.divided else at("%y", "y", "token")
                return query, at("%x", "q", "token"), "null" if mask == "null" else at(mask, "mask", "row"), o, state

            with write.loop(0, size["rows"]) as row:
                *_, o, state = row_pointers(row)
                write.store("float", number(LOWEST), state)
                write.store("float", number(0.0), write.at(state, 1))
                zero_floats(write, o, size["value_dim"])
            with write.loop(first, end, size["block"]) as begin:
                count = write.i64("sub", write.i64("smin", write.add(begin, size["block"]), end), begin)
                # A last part with fewer keys is summed with keys before it; there are enough.
                taken = write.i64("smax", count, self.keys)
                early = write.i64("sub", begin, write.i64("smax", 0, write.i64(
                    "sub", write.add(begin, taken), size["kv_len"])))
                shift = write.i64("sub", begin, early)
                k_block = write.at(k, write.mul(early, size["k_token"]))
                v_block = write.at(v, write.mul(begin, size["v_token"]))
                with write.loop(0, size["rows"]) as row:
                    query, q, row_mask, o, state = row_pointers(row)
                    hidden = write.i64("sub", write.add(query, 1), early)
                    to = write.at(s, write.i64("sub", 0, shift))
                    added = "null" if mask == "null" else write.at(row_mask, early)
                    write.do(f"call void @scores(ptr {q}, ptr {k_block}, ptr {to}, i64 {taken}, ptr {added}, "
                             f"i64 {hidden}, ptr %a)")
                    write.do(f"call void @weights(ptr {s}, ptr {state}, i64 {count}, ptr {factor})")
                    write.do(f"call void @values(ptr {s}, ptr {v_block}, ptr {o}, float {write.load('float', factor)}, "
                             f"i64 {count}, ptr %a)")
            if not self.divided:
                with write.loop(0, size["rows"]) as row:
                    *_, o, state = row_pointers(row)
                    self._scaled(write, o, o, inverse_of(write, write.load("float", write.at(state, 1))),
                                 size["value_dim"])
        return write.function(f"void @attention({ENTRY})")

    def _scaled(self, write: Writer, from_: str, to: str, factor: str, count: str) -> None:
        """Multiply whole vectors of outputs."""
        factors = write.splat(self.vector, factor)
        with write.loop(0, count, self.vector) as start:
            value = write.load(self.kind, write.at(from_, start))
            write.store(self.kind, write.let(f"fmul {self.kind} {value}, {factors}"), write.at(to, start))


def _lane_sums(write: Writer, lanes: int, vectors: Sequence[str]) -> str:
    """The sums of the lanes of each vector, in order; the number of vectors is a power of two, at most `lanes`.

    Each step adds the lower and the upper halves of groups of lanes: two vectors become one with twice as many groups.
    """
    current, group = list(vectors), lanes
    while group > 1:
        starts = range(0, lanes, group)
        halves = []
        for part in (0, group // 2):
            halves.append([start + part + lane for start in starts for lane in range(group // 2)])
        if len(current) > 1:
            current = [_paired(write, lanes, low, high, halves)
                       for low, high in zip(current[::2], current[1::2], strict=True)]
        else:
            current = [_paired(write, lanes, current[0], "poison", halves)]
        group //= 2
    return current[0] if len(vectors) == lanes else write.shuffle(lanes, current[0], "poison", range(len(vectors)))


def _paired(write: Writer, lanes: int, first: str, second: str, halves: Sequence[Sequence[int]]) -> str:
    """Add the lower and the upper halves of both vectors' groups: the groups of the first, then of the second."""
    kind = f"<{lanes} x float>"
    low, high = (write.shuffle(lanes, first, second, [*half, *(lane + lanes for lane in half)]) for half in halves)
    return write.let(f"fadd {kind} {low}, {high}")
