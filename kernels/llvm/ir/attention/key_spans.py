"""Spans of keys: each stores, for every query, its largest score, its sum of weights and its sums of values."""

from __future__ import annotations

from ...attention_views import FIELDS as VIEWS
from ...text.writer import ENTRY, Writer
from .weights import LOWEST, number, weight

# `rows`: queries of a head of k and v; `span`: keys of a task; `partial`: floats of a span's result for one query.
FIELDS = (*VIEWS, "kv_heads", "rows", "spans", "span", "block", "threads", "tasks", "piece", "partials_at", "partial",
          "mask")
VALUES = 2  # floats of a span's result before its sums of values


def inverse_of(write: Writer, total: str) -> str:
    """Write 1 / total; 0 where no key was visible, as PyTorch's result is."""
    empty = write.let(f"fcmp oeq float {total}, {number(0.0)}")
    inverse = write.let(f"fdiv float {number(1.0)}, {total}")
    return write.let(f"select i1 {empty}, float {number(0.0)}, float {inverse}")


def merge(lanes: int) -> str:
    """The entry `merge`, which joins the spans of a head's keys; a task is one query of one head."""
    write, kind = Writer(FIELDS), f"<{lanes} x float>"
    size = {name: write.argument(name) for name in FIELDS[:-1]}
    step = write.mul(size["rows"], size["partial"])
    with write.loop("%begin", "%end") as task:
        row, across = write.i64("urem", task, size["rows"]), write.i64("udiv", task, size["rows"])
        head, image = write.i64("urem", across, size["kv_heads"]), write.i64("udiv", across, size["kv_heads"])
        q_head = write.add(write.mul(head, size["group"]), write.i64("udiv", row, size["q_len"]))
        y = write.at(write.at(write.at("%y", write.mul(image, size["y_image"])),
                              write.mul(q_head, size["y_head"])),
                     write.mul(write.i64("urem", row, size["q_len"]), size["y_token"]))
        first = write.at(write.at("%workspace", size["partials_at"]), write.add(
            write.mul(write.mul(across, size["spans"]), step), write.mul(row, size["partial"])))

        def look(values: list[str]) -> list[str]:
            state, limit = values
            largest = write.load("float", state)
            above = write.let(f"fcmp ogt float {largest}, {limit}")
            return [write.at(state, step), write.let(f"select i1 {above}, float {largest}, float {limit}")]

        limit = write.repeat(size["spans"], [("ptr", first), ("float", number(LOWEST))], look)[1]
        limits = write.splat(lanes, limit)

        def weigh(values: list[str]) -> list[str]:
            state, total = values
            before = write.let(f"fsub {kind} {write.splat(lanes, write.load('float', state))}, {limits}")
            factor = write.let(f"extractelement {kind} {weight(write, lanes, before)}, i32 0")
            write.store("float", factor, state)
            share = write.let(f"fmul float {write.load('float', write.at(state, 1))}, {factor}")
            return [write.at(state, step), write.let(f"fadd float {total}, {share}")]

        total = write.repeat(size["spans"], [("ptr", first), ("float", number(0.0))], weigh)[1]
        inverse = write.splat(lanes, inverse_of(write, total))
        with write.loop(0, size["value_dim"], lanes) as start:
            def join(values: list[str]) -> list[str]:
                state, sums = values
                value = write.load(kind, write.at(write.at(state, VALUES), start))
                factor = write.splat(lanes, write.load("float", state))
                return [write.at(state, step), write.fma(lanes, value, factor, sums)]

            sums = write.repeat(size["spans"], [("ptr", first), (kind, "zeroinitializer")], join)[1]
            write.store(kind, write.let(f"fmul {kind} {sums}, {inverse}"), write.at(y, start))
    return write.function(f"void @merge({ENTRY})")
