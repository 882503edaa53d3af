"""Writer: LLVM IR text line by line, with fresh names for values and blocks.

No optimisation passes run over the text, so loops carry their values in phis and every instruction is written out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

# The parameters of every entry of a source; see `seqtune.kernels.llvm.launch`.
ENTRY = "ptr %x, ptr %w, ptr %bias, ptr %y, ptr %workspace, ptr %a, i64 %begin, i64 %end"


class Writer:
    """The body of one function; it begins with the block `entry`. `fields` names the launch arguments behind %a."""

    def __init__(self, fields: Sequence[str] = ()) -> None:
        self.lines = ["entry:"]
        self.block = "entry"
        self._count = 0
        self._index = {name: index for index, name in enumerate(fields)}

    def fresh(self) -> str:
        """A new, unique name."""
        self._count += 1
        return f"%t{self._count}"

    def let(self, text: str) -> str:
        """Write an instruction and return the name of its value."""
        name = self.fresh()
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Write an instruction without a value."""
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        """Begin the block of that name."""
        self.block = name
        self.lines.append(f"{name}:")

    def argument(self, name: str) -> str:
        """Load a launch argument."""
        return self.let(f"load i64, ptr {self.let(f'getelementptr i64, ptr %a, i64 {self._index[name]}')}, align 8")

    def i64(self, operation: str, left: str | int, right: str | int) -> str:
        """Apply `add`, `mul`, `udiv` ..., or an intrinsic (umin, umax, smin, smax), which the module must declare."""
        if operation in ("umin", "umax", "smin", "smax"):
            return self.let(f"call i64 @llvm.{operation}.i64(i64 {left}, i64 {right})")
        return self.let(f"{operation} i64 {left}, {right}")

    def add(self, left: str | int, right: str | int) -> str:
        """left + right."""
        return self.i64("add", left, right)

    def mul(self, left: str | int, right: str | int) -> str:
        """left * right."""
        return self.i64("mul", left, right)

    def at(self, base: str, offset: str | int, kind: str = "float") -> str:
        """A pointer moved by `offset` elements of a type."""
        return base if offset == 0 else self.let(f"getelementptr {kind}, ptr {base}, i64 {offset}")

    def load(self, kind: str, pointer: str) -> str:
        """Load floats from memory."""
        return self.let(f"load {kind}, ptr {pointer}, align 4")

    def store(self, kind: str, value: str, pointer: str) -> None:
        """Store floats to memory."""
        self.do(f"store {kind} {value}, ptr {pointer}, align 4")

    def shuffle(self, lanes: int, first: str, second: str, chosen: Sequence[int]) -> str:
        """Chosen lanes of two vectors of `lanes` floats."""
        mask = ", ".join(f"i32 {lane}" for lane in chosen)
        return self.let(f"shufflevector <{lanes} x float> {first}, <{lanes} x float> {second}, "
                        f"<{len(chosen)} x i32> <{mask}>")

    def fma(self, lanes: int, a: str, b: str, c: str) -> str:
        """a * b + c, fused where the target can. The module must declare it: see `declarations`."""
        kind = f"<{lanes} x float>"
        return self.let(f"call contract {kind} @llvm.fmuladd.v{lanes}f32({kind} {a}, {kind} {b}, {kind} {c})")

    def splat(self, lanes: int, value: str) -> str:
        """A vector that holds a float in all lanes."""
        first = self.let(f"insertelement <{lanes} x float> poison, float {value}, i32 0")
        return self.shuffle(lanes, first, "poison", [0] * lanes)

    @contextmanager
    def loop(self, first: str | int, last: str | int, step: str | int = 1) -> Iterator[str]:
        """Loop over an index from `first` up to, not including, `last`; may run zero times."""
        index = self.fresh()
        name = index[1:]
        before = self.block
        self.do(f"br label %check{name}")
        self.label(f"check{name}")
        phi_line = len(self.lines)
        self.lines.append("")  # the phi, written when the last block of the body is known
        self.do(f"%go{name} = icmp slt i64 {index}, {last}")
        self.do(f"br i1 %go{name}, label %body{name}, label %end{name}")
        self.label(f"body{name}")
        yield index
        following = self.add(index, step)
        self.lines[phi_line] = f"  {index} = phi i64 [ {first}, %{before} ], [ {following}, %{self.block} ]"
        self.do(f"br label %check{name}")
        self.label(f"end{name}")

    def repeat(self, count: str, carried: Sequence[tuple[str, str]],
               body: Callable[[list[str]], list[str]]) -> list[str]:
        """Run `body` `count` times, at least once. It maps the carried (kind, value) pairs to those of the next pass.

        Returns the values after the last pass.
        """
        name, before = f"loop{self.fresh()[2:]}", self.block
        self.do(f"br label %{name}")
        self.label(name)
        first_line = len(self.lines)
        names = [f"%{name}v{index}" for index in range(len(carried))]
        after = body(names)
        self.do(f"%{name}n = add nuw i64 %{name}i, 1")
        self.do(f"%{name}m = icmp ult i64 %{name}n, {count}")
        self.lines[first_line:first_line] = [
            f"  {phi} = phi {kind} [ {first}, %{before} ], [ {later}, %{self.block} ]"
            for phi, kind, first, later in [(f"%{name}i", "i64", "0", f"%{name}n"), *(
                (phi, kind, first, later)
                for phi, (kind, first), later in zip(names, carried, after, strict=True))]]
        self.do(f"br i1 %{name}m, label %{name}, label %{name}e")
        self.label(f"{name}e")
        return after

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Instructions written inside run only where the condition holds."""
        name = self.fresh()[1:]
        self.do(f"br i1 {condition}, label %then{name}, label %after{name}")
        self.label(f"then{name}")
        yield
        self.do(f"br label %after{name}")
        self.label(f"after{name}")

    def function(self, signature: str) -> str:
        """The whole function: `internal void @name(ptr %x)`."""
        return "\n".join([f"define {signature} nounwind {{", *self.lines, "  ret void", "}"])


def in_order(fields: Sequence[str], **values: int) -> tuple[int, ...]:
    """The launch arguments in the order of `fields`."""
    assert values.keys() == set(fields), values.keys() ^ set(fields)
    return tuple(values[name] for name in fields)


def declarations(*lanes: int) -> str:
    """Declarations of the intrinsics that the writer uses; `lanes`: widths of the vectors that are multiplied."""
    return "\n".join([
        *(f"declare i64 @llvm.{name}.i64(i64, i64)" for name in ("umin", "umax", "smin", "smax")),
        *(f"declare <{n} x float> @llvm.fmuladd.v{n}f32(<{n} x float>, <{n} x float>, <{n} x float>)" for n in lanes),
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)", "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"])


def copy_floats(write: Writer, to: str, source: str, count: str | int) -> None:
    """Copy `count` floats."""
    write.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {write.mul(count, 4)}, i1 false)")


def zero_floats(write: Writer, to: str, count: str | int) -> None:
    """Write `count` zeros."""
    write.do(f"call void @llvm.memset.p0.i64(ptr {to}, i8 0, i64 {write.mul(count, 4)}, i1 false)")
