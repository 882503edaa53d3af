"""Layer text: the LLVM IR of a prediction's arithmetic: matrix products, whole layers, and reading and scoring words.

A prediction has a few rows and many small products; between two of them Python would take as long as the products.
Functions of layers make the calls that NumPy would make, in the same order, so they give the same bits. They take their
matrices as a table, four numbers each: the addresses of weights and offsets, the numbers of inputs and outputs.
The sum of an element of a product is added up from the first input to the last one, in one lane, so it depends on
nothing but its row of the inputs and its column of the weights.
"""

from __future__ import annotations

from seqtune.kernels.llvm.text.elements import FP32
from seqtune.kernels.llvm.text.vectors import declare_math, float_text
from seqtune.kernels.llvm.text.writer import Writer, copy_floats, declarations

from .row_text import LANES, VECTOR, dot, first_lanes, lanes, load, row_text, store, unit_scale
from .row_text import SIGNATURES as ROW_SIGNATURES

PANEL = 2 * LANES  # columns of a matrix that lie together, row after row; the last ones are padded with zeros
BLOCK = 256  # rows that are multiplied with a panel while it is in the first-level cache
UNIT, GELU, ADD = 1, 2, 4  # what is done in addition to the product
# Bits of a CPU's vectors -> rows and vectors of a tile whose sums stay in registers, beside a weight and an input.
_TILES = {512: (8, 2), 256: (4, 1), 128: (2, 1)}
SCORED = 128  # words that are scored together: what lies between the products stays in the caches

# Entry -> its parameters; pitches are the floats from a row to the next one. Shapes: H hypotheses, T words of each that
# are read, D words read before, R words, V target words of a query, W width. `before` (., D, 2 W) and `past` (H, D + T,
# 2 W) hold keys and values; `parents` (H,) is the index of a hypothesis in `before`, `owners` (H,) that of its query.
# `finished` is T, or 1: only the last word counts.
SIGNATURES = {
    "multiply": "ptr %x, i64 %x_pitch, i64 %rows, i64 %depth, ptr %w, ptr %bias, ptr %y, i64 %columns, i64 %flags",
    "encode": "ptr %x, i64 %rows, i64 %heads, ptr %matrices, ptr %starts, ptr %counts, ptr %scratch",
    "decode": "ptr %x, i64 %hypotheses, i64 %length, i64 %finished, i64 %done, i64 %heads, ptr %matrices, ptr %before, "
              "ptr %parents, ptr %past, ptr %source, i64 %source_pitch, ptr %source_starts, ptr %source_counts, "
              "ptr %owners, ptr %scratch, ptr %y",
    "read": "ptr %vectors, i64 %targets, ptr %owners, ptr %words, ptr %sums, i64 %rows, ptr %matrices, ptr %scratch, "
            "ptr %y",
    "score": "ptr %last, i64 %hypotheses, ptr %matrices, ptr %gain, ptr %offset, ptr %vectors, i64 %targets, "
             "ptr %owners, ptr %after, ptr %words, ptr %sums, i64 %rows, ptr %scratch, ptr %scores",
    **ROW_SIGNATURES,
}


def text(bits: int) -> str:
    """The module for a CPU whose vectors have `bits` bits; its entries are the keys of `SIGNATURES`."""
    return "\n".join([declarations(LANES), declare_math(LANES), FP32.declare(LANES), _product(bits), row_text(),
                      _encode(), _decode(), _read(), _score()])


def _function(write: Writer, name: str) -> str:
    return write.function(f"void @{name}({SIGNATURES[name]})")


def _product(bits: int) -> str:
    """The function `multiply` for a CPU whose vectors have `bits` bits; it calls `gelu`."""
    most, vectors = _TILES[bits]
    sizes = [most >> step for step in range(most.bit_length())]
    return "\n".join([*(_tile(rows, vectors) for rows in sizes), _multiply(sizes)])


def _tile(rows: int, vectors: int) -> str:
    """Write `rows` rows of a panel of a product: the sums of some columns are added up one depth after the other."""
    write = Writer()
    xs = [write.at("%x", write.mul("%x_pitch", row)) for row in range(rows)]
    ys = [write.at("%y", write.mul("%y_pitch", row)) for row in range(rows)]
    is_added = write.let("icmp ne i64 %add, 0")
    positions = [(row, vector) for row in range(rows) for vector in range(vectors)]

    def block(column: int, masks: list[str] | None) -> None:
        def step(carried: list[str]) -> list[str]:
            depth, weights, *sums = carried
            loaded = [write.load(VECTOR, write.at(weights, vector * LANES)) for vector in range(vectors)]
            inputs = [write.splat(LANES, write.load("float", write.at(x, depth))) for x in xs]
            return [write.add(depth, 1), write.at(weights, PANEL),
                    *(write.fma(LANES, inputs[row], loaded[vector], total)
                      for (row, vector), total in zip(positions, sums, strict=True))]

        start = [("i64", "0"), ("ptr", write.at("%w", column)), *[(VECTOR, "zeroinitializer")] * len(positions)]
        sums = write.repeat("%depth", start, step)[2:]
        for (row, vector), total in zip(positions, sums, strict=True):
            offset = column + vector * LANES
            scale = write.splat(LANES, write.load("float", write.at("%scales", row)))
            value = write.fma(LANES, total, scale, write.load(VECTOR, write.at("%bias", offset)))
            to = write.at(ys[row], offset)
            before = write.let(f"select i1 {is_added}, ptr {to}, ptr @nothing")
            if masks is None:
                write.store(VECTOR, write.let(f"fadd {VECTOR} {value}, {write.load(VECTOR, before)}"), to)
            else:
                old = FP32.load_masked(write, LANES, before, masks[vector])
                FP32.store_masked(write, LANES, write.let(f"fadd {VECTOR} {value}, {old}"), to, masks[vector])

    width = LANES * vectors
    for column in range(0, PANEL, width):
        with write.when(write.let(f"icmp sge i64 %columns, {column + width}")):
            block(column, None)
        beyond = write.let(f"icmp sgt i64 %columns, {column}")
        partly = write.let(f"icmp slt i64 %columns, {column + width}")
        with write.when(write.let(f"and i1 {beyond}, {partly}")):
            block(column, [first_lanes(write, write.i64("sub", "%columns", column + vector * LANES))
                           for vector in range(vectors)])
    return write.function(f"internal void @tile{rows}(ptr %x, i64 %x_pitch, i64 %depth, ptr %w, ptr %bias, ptr %y, "
                          "i64 %y_pitch, i64 %columns, ptr %scales, i64 %add) noinline")


def _multiply(sizes: list[int]) -> str:
    """Write x @ w + bias, which read a panel of w once for BLOCK rows; `w` holds panel after panel.

    `flags`: with UNIT the rows of x are scaled to length 1, GELU applies gelu, and ADD adds the result to y.
    """
    write = Writer()
    unit, gelu, add = (write.i64("and", "%flags", flag) for flag in (UNIT, GELU, ADD))
    scales = write.let(f"alloca [{BLOCK} x float], align 64")
    with write.loop(0, BLOCK) as row:
        write.store("float", float_text(1.0), write.at(scales, row))
    with write.loop(0, "%rows", BLOCK) as first:
        count = write.i64("smin", write.i64("sub", "%rows", first), BLOCK)
        x, y = (write.at(base, write.mul(first, pitch)) for base, pitch in (("%x", "%x_pitch"), ("%y", "%columns")))
        with write.when(write.let(f"icmp ne i64 {unit}, 0")), write.loop(0, count) as row:
            write.store("float", unit_scale(write, write.at(x, write.mul(row, "%x_pitch")), "%depth"),
                        write.at(scales, row))
        with write.loop(0, "%columns", PANEL) as column:
            panel, bias = write.at("%w", write.mul(column, "%depth")), write.at("%bias", column)
            left = write.i64("sub", "%columns", column)
            done = "0"
            for size in sizes:
                end = write.i64("and", count, -size)
                with write.loop(done, end, size) as row:
                    from_row = write.at(x, write.mul(row, "%x_pitch"))
                    to = write.at(write.at(y, write.mul(row, "%columns")), column)
                    write.do(f"call void @tile{size}(ptr {from_row}, i64 %x_pitch, i64 %depth, ptr {panel}, "
                             f"ptr {bias}, ptr {to}, i64 %columns, i64 {left}, ptr {write.at(scales, row)}, "
                             f"i64 {add})")
                done = end
    with write.when(write.let(f"icmp ne i64 {gelu}, 0")):
        write.do(f"call void @gelu(ptr %y, i64 {write.mul('%rows', '%columns')})")
    function = _function(write, "multiply")
    return f"@nothing = internal constant {VECTOR} zeroinitializer, align 64\n{function}"


class _Matrix:
    """Entry `index` of a table of matrices."""

    def __init__(self, write: Writer, index: int) -> None:
        self._write, entry = write, write.at("%matrices", 4 * index, "i64")
        self._weight, self._bias = (write.let(f"load ptr, ptr {write.at(entry, part, 'i64')}, align 8")
                                    for part in (0, 1))
        self.inputs, self.outputs = (_number(write, entry, part) for part in (2, 3))

    def multiply(self, x: str, pitch: str, rows: str, y: str, flags: int) -> None:
        """Write the products of rows of x to y."""
        self._write.do(f"call void @multiply(ptr {x}, i64 {pitch}, i64 {rows}, i64 {self.inputs}, ptr {self._weight}, "
                       f"ptr {self._bias}, ptr {y}, i64 {self.outputs}, i64 {flags})")


def _number(write: Writer, base: str, index: str | int) -> str:
    return write.let(f"load i64, ptr {write.at(base, index, 'i64')}, align 8")


def _attend(write: Writer, query: str, query_pitch: str, pairs: str, pair_pitch: str, starts: str, counts: str,
            rows: str, width: str, scratch: str, y: str) -> None:
    size = write.i64("udiv", width, "%heads")
    write.do(f"call void @attend(ptr {query}, i64 {query_pitch}, ptr {pairs}, i64 {pair_pitch}, ptr {starts}, "
             f"ptr {counts}, i64 {rows}, i64 %heads, i64 {size}, ptr {scratch}, ptr {y})")


def _feed(write: Writer, inner: _Matrix, outer: _Matrix, x: str, rows: str, scratch: str) -> None:
    """Add the feed-forward block to the rows of x."""
    inner.multiply(x, inner.inputs, rows, scratch, UNIT + GELU)
    outer.multiply(scratch, outer.inputs, rows, x, ADD)


def _encode() -> str:
    """Write a layer of the encoder: rows of x attend to others of x; then the feed-forward block."""
    write = Writer()
    words, out, inner, outer = (_Matrix(write, index) for index in range(4))
    width = words.inputs
    attended = write.at("%scratch", write.mul("%rows", words.outputs))
    rest = write.at(attended, write.mul("%rows", width))
    words.multiply("%x", width, "%rows", "%scratch", UNIT)
    _attend(write, "%scratch", words.outputs, write.at("%scratch", width), words.outputs, "%starts", "%counts",
            "%rows", width, rest, attended)
    out.multiply(attended, width, "%rows", "%x", ADD)
    _feed(write, inner, outer, "%x", "%rows", rest)
    return _function(write, "encode")


def _decode() -> str:
    """Write a layer of the decoder: words attend to earlier ones and to the source; then the feed-forward block.

    `x` (H T, W) stays as it is; the result `y` (H finished, W) has the finished words alone.
    """
    write = Writer()
    words, out, cross_query, cross_out, inner, outer = (_Matrix(write, index) for index in range(6))
    width = words.inputs
    pair = write.mul(width, 2)
    rows, kept = write.mul("%hypotheses", "%finished"), write.add("%done", "%length")
    starts = "%scratch"
    counts = write.at(starts, rows, "i64")
    read = write.at(counts, rows, "i64")
    attended = write.at(read, write.mul(write.mul("%hypotheses", "%length"), words.outputs))
    rest = write.at(attended, write.mul(rows, width))
    words.multiply("%x", width, write.mul("%hypotheses", "%length"), read, UNIT)
    skipped = write.i64("sub", "%length", "%finished")
    with write.loop(0, "%hypotheses") as hypothesis:
        parent = _number(write, "%parents", hypothesis)
        to = write.at("%past", write.mul(hypothesis, write.mul(kept, pair)))
        before = write.mul("%done", pair)
        copy_floats(write, to, write.at("%before", write.mul(parent, before)), before)
        own = write.at(read, write.mul(write.mul(hypothesis, "%length"), words.outputs))
        with write.loop(0, "%length") as word:
            copy_floats(write, write.at(write.at(to, before), write.mul(word, pair)),
                        write.at(write.at(own, write.mul(word, words.outputs)), width), pair)
        with write.loop(0, "%finished") as word:
            row = write.add(write.mul(hypothesis, "%finished"), word)
            position = write.add(word, skipped)
            copy_floats(write, write.at("%y", write.mul(row, width)), write.at(
                "%x", write.mul(write.add(write.mul(hypothesis, "%length"), position), width)), width)
            # a word sees itself and earlier ones
            for base, number in ((starts, write.mul(hypothesis, kept)),
                                 (counts, write.add(write.add("%done", position), 1))):
                write.do(f"store i64 {number}, ptr {write.at(base, row, 'i64')}, align 8")
    # all words are finished, and their rows follow each other; or only the last one of each hypothesis
    every = write.let("icmp eq i64 %finished, %length")
    pitch = write.let(f"select i1 {every}, i64 {words.outputs}, i64 {write.mul('%length', words.outputs)}")
    query = write.at(read, write.mul(skipped, words.outputs))
    _attend(write, query, pitch, "%past", pair, starts, counts, rows, width, rest, attended)
    out.multiply(attended, width, rows, "%y", ADD)
    with write.loop(0, rows) as row:
        owner = _number(write, "%owners", write.i64("udiv", row, "%finished"))
        for base, source in ((starts, "%source_starts"), (counts, "%source_counts")):
            write.do(f"store i64 {_number(write, source, owner)}, ptr {write.at(base, row, 'i64')}, align 8")
    cross_query.multiply("%y", width, rows, read, UNIT)
    _attend(write, read, width, "%source", "%source_pitch", starts, counts, rows, width, rest, attended)
    cross_out.multiply(attended, width, rows, "%y", ADD)
    _feed(write, inner, outer, "%y", rows, rest)
    return _function(write, "decode")


def _vector(write: Writer, owner: str, word: str, width: str) -> str:
    """The vector of a target word for a query."""
    return write.at("%vectors", write.mul(write.add(write.mul(owner, "%targets"), word), width))


def _read() -> str:
    """Write what the decoder reads of words: their vectors, and an answer to the sums of the prefixes' quantities."""
    write = Writer()
    settled = _Matrix(write, 0)
    width = settled.inputs
    with write.loop(0, "%rows") as row:
        begin = write.mul(row, width)
        vector = _vector(write, _number(write, "%owners", row), _number(write, "%words", row), width)
        to, sums, total = (write.at(base, begin) for base in ("%y", "%sums", "%scratch"))
        with lanes(write, width) as (index, mask):
            value = load(write, vector, index, mask)
            store(write, value, to, index, mask)
            added = write.let(f"fadd {VECTOR} {load(write, sums, index, mask)}, {value}")
            store(write, added, total, index, mask)
    write.do(f"call void @gelu(ptr %scratch, i64 {write.mul('%rows', width)})")
    settled.multiply("%scratch", width, "%rows", "%y", ADD)
    write.do(f"call void @centre(ptr %y, i64 %rows, i64 {width}, ptr %y)")
    return _function(write, "read")


def _score() -> str:
    """Write the scores of words (R,) after hypotheses: `after` (R,) is the index of the hypothesis.

    The first matrix makes what a hypothesis asks, (W + hidden), the second one the hidden answer of a word.
    """
    write = Writer()
    ask, answer = _Matrix(write, 0), _Matrix(write, 1)
    width, hidden = answer.inputs, answer.outputs
    states = write.at("%scratch", write.mul("%hypotheses", ask.outputs))
    combined = write.at(states, write.mul("%hypotheses", width))
    answers = write.at(combined, write.mul(write.i64("smin", "%rows", SCORED), width))
    ask.multiply("%last", width, "%hypotheses", "%scratch", UNIT)
    write.do(f"call void @unit(ptr %last, i64 %hypotheses, i64 {width}, ptr {states})")
    with write.loop(0, "%hypotheses") as hypothesis:
        state = write.at(states, write.mul(hypothesis, width))
        with lanes(write, width) as (index, mask):
            scaled = write.let(f"fmul {VECTOR} {load(write, state, index, mask)}, "
                               f"{load(write, '%gain', index, mask)}")
            store(write, write.let(f"fadd {VECTOR} {scaled}, {load(write, '%offset', index, mask)}"), state, index,
                  mask)

    def rows_of(row: str) -> tuple[str, str, str]:
        """The row's word's vector, and what its hypothesis asks and is."""
        after = _number(write, "%after", row)
        return (_vector(write, _number(write, "%owners", after), _number(write, "%words", row), width),
                write.at("%scratch", write.mul(after, ask.outputs)), write.at(states, write.mul(after, width)))

    with write.loop(0, "%rows", SCORED) as first:
        count = write.i64("smin", write.i64("sub", "%rows", first), SCORED)
        with write.loop(0, count) as index:
            row = write.add(first, index)
            vector, asked, _ = rows_of(row)
            sums, to = write.at("%sums", write.mul(row, width)), write.at(combined, write.mul(index, width))
            with lanes(write, width) as (lane, mask):
                added = write.let(f"fadd {VECTOR} {load(write, sums, lane, mask)}, {load(write, vector, lane, mask)}")
                store(write, write.let(f"fadd {VECTOR} {added}, {load(write, asked, lane, mask)}"), to, lane, mask)
        write.do(f"call void @gelu(ptr {combined}, i64 {write.mul(count, width)})")
        answer.multiply(combined, width, count, answers, GELU)
        with write.loop(0, count) as index:
            row = write.add(first, index)
            vector, asked, state = rows_of(row)
            told = dot(write, write.at(asked, width), write.at(answers, write.mul(index, hidden)), hidden)
            score = write.let(f"fadd float {dot(write, state, vector, width)}, {told}")
            write.store("float", score, write.at("%scores", row))
    return _function(write, "score")
