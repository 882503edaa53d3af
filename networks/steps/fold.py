"""fold: a loop that carries values; `sweep` accumulates a row's vectors, `visit` only visits them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from seqtune.kernels.llvm.text.vectors import Vectors
from seqtune.kernels.llvm.text.writer import Writer

from . import masks


def fold(write: Writer, bounds: tuple[str | int, str | int, int], kind: str, carried: Sequence[str],
         body: Callable[[str, list[str]], list[str]]) -> list[str]:
    """Loop over an index from `first` up to, not including, `last` by a step, and carry values of one kind.

    `body` maps the index and the values to the next values. Returns the values after the loop, which may run zero
    times.
    """
    first, last, step = bounds
    name, before = f"fold{write.fresh()[2:]}", write.block
    write.do(f"br label %{name}")
    write.label(name)
    head = len(write.lines)
    values = [f"%{name}v{number}" for number in range(len(carried))]
    write.do(f"%{name}go = icmp slt i64 %{name}i, {last}")
    write.do(f"br i1 %{name}go, label %{name}body, label %{name}end")
    write.label(f"{name}body")
    after = body(f"%{name}i", values)
    following = write.add(f"%{name}i", step)
    write.lines[head:head] = [f"  {phi} = phi {of} [ {start}, %{before} ], [ {later}, %{write.block} ]"
                              for phi, of, start, later in [(f"%{name}i", "i64", first, following), *(
                                  (phi, kind, start, later)
                                  for phi, start, later in zip(values, carried, after, strict=True))]]
    write.do(f"br label %{name}")
    write.label(f"{name}end")
    return values


def sweep(v: Vectors, columns: str, first: str, copies: int, step: Callable[[str, str | None, str], str],
          join: Callable[[str, str], str]) -> str:
    """Accumulate a row's vectors. `step` maps (column, mask, sum) to the next sum; `copies` sums are independent.

    Every sum begins with `first`, and `join` adds two sums. The mask is None except for the vector that ends the row.
    """
    write, turn = v.write, copies * v.lanes
    turns, vectors = write.i64("and", columns, -turn), write.i64("and", columns, -v.lanes)
    sums = fold(write, (0, turns, turn), v.kind, [first] * copies, lambda column, sums: [
        step(write.add(column, copy * v.lanes), None, value) for copy, value in enumerate(sums)])
    while len(sums) > 1:
        half = len(sums) // 2
        sums = [join(left, right) for left, right in zip(sums[:half], sums[half:2 * half], strict=True)] + (
            sums[2 * half:])
    sums = fold(write, (turns, vectors, v.lanes), v.kind, sums, lambda column, sums: [step(column, None, sums[0])])
    return fold(write, (vectors, columns, v.lanes), v.kind, sums, lambda column, sums: [
        step(column, masks.first_lanes(v, write.i64("sub", columns, column)), sums[0])])[0]


def visit(v: Vectors, columns: str, copies: int, body: Callable[[str, str | None], None]) -> None:
    """Visit a row's vectors, `copies` per turn. `body` takes the column and a mask, None except for the row's end."""
    write, turn = v.write, copies * v.lanes
    turns, vectors = write.i64("and", columns, -turn), write.i64("and", columns, -v.lanes)
    with write.loop(0, turns, turn) as column:
        for offset in range(0, turn, v.lanes):
            body(write.add(column, offset) if offset else column, None)
    if copies > 1:
        with write.loop(turns, vectors, v.lanes) as column:
            body(column, None)
    rest = write.i64("sub", columns, vectors)
    with write.when(write.let(f"icmp ne i64 {rest}, 0")):
        body(vectors, masks.first_lanes(v, rest))


def across(v: Vectors, value: str, join: Callable[[str, str], str]) -> str:
    """The sum of all lanes, in all lanes."""
    half = v.lanes // 2
    while half:
        value = join(value, v.write.shuffle(v.lanes, value, "poison", [
            (lane + half) % v.lanes for lane in range(v.lanes)]))
        half //= 2
    return value
