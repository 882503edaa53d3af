"""Program text: the LLVM IR of a function that runs programs of arithmetic over rows of a space.

A kernel's derived quantities are expressions. NumPy would make a call for every operator, each of which takes longer
than the numbers of a beam; and machine code for each kernel would take longer to compile than a program takes to write.
A program is a list of instructions, five numbers each: an operation, the register that it writes, and up to three
operands. A register holds a double for each row of a block.

Whole numbers are doubles, too, and exact: a result that is not below LARGEST sets the fault, and so does whatever else
NumPy may treat otherwise.
"""

from __future__ import annotations

from seqtune.kernels.arithmetic import LARGEST_SHIFT
from seqtune.kernels.llvm.text.writer import Writer, declarations

BLOCK = 64  # rows that go through a program together, so that the registers stay in the caches
LARGEST = 1 << 50  # the quotient of two whole numbers is right but for one, and its products are exact
LANES = 8  # doubles of a vector

SIGNATURES = {
    "run": "ptr %code, i64 %uniform_end, i64 %end, ptr %inputs, i64 %input_count, ptr %registers, ptr %pool, "
           "ptr %table, i64 %row_pitch, i64 %column_pitch, ptr %rows, i64 %count, ptr %y, ptr %fault"}

_RELATIONS = {"equal": "oeq", "different": "une", "less": "olt", "at_most": "ole"}
_LIMITED = {"add": "fadd", "subtract": "fsub", "multiply": "fmul"}  # of whole numbers; those of others end with _real
_BITS = ("gcd", "left", "right", "and", "or", "xor")
# Operations in the order of their numbers. The truth is 0 or 1.
OPERATIONS = (
    "load",  # a: offset in the pool, b: column of the table
    "store",  # a: what is written, b: column of the result
    "truth", "not", "check",  # check: b, where a must be true in every row
    *_LIMITED, *(f"{name}_real" for name in _LIMITED), "divide", "floor", "rest", "minimum", "maximum", *_RELATIONS,
    "choose",  # choose: b where a is true, else c
    *_BITS)
_KIND = f"<{LANES} x double>"
_SHARED = ("ptr %code", "ptr %registers", "ptr %pool", "ptr %table", "i64 %row_pitch", "i64 %column_pitch",
           "ptr %rows", "i64 %count", "ptr %y", "ptr %fault")


def program_text(bits: int) -> str:
    """The module; LLVM cuts its vectors into the CPU's own."""
    return "\n".join([
        declarations(), "declare i64 @llvm.abs.i64(i64, i1)", f"declare {_KIND} @llvm.floor.v{LANES}f64({_KIND})",
        f"declare {_KIND} @llvm.fabs.v{LANES}f64({_KIND})", _gcd(), _part(), _run()])


def _run() -> str:
    """Write the function: the uniform instructions once, then the others for each block of rows.

    The first registers have the inputs, each the same for all rows, and so are the results of uniform instructions.
    """
    write = Writer()
    with write.loop(0, "%input_count") as number:
        register = write.at("%registers", write.mul(number, BLOCK), "i64")
        value = _splat(write, write.let(f"load double, ptr {write.at('%inputs', number, 'i64')}, align 8"))
        with write.loop(0, BLOCK, LANES) as row:
            write.do(f"store {_KIND} {value}, ptr {write.at(register, row, 'i64')}, align 8")
    write.do("call void @part(" + _arguments("i64 0", "i64 %uniform_end", "i64 0", f"i64 {BLOCK}") + ")")
    with write.loop(0, "%count", BLOCK) as begin:
        size = write.i64("smin", write.i64("sub", "%count", begin), BLOCK)
        write.do("call void @part(" + _arguments("i64 %uniform_end", "i64 %end", f"i64 {begin}", f"i64 {size}") + ")")
    return write.function(f"void @run({SIGNATURES['run']})")


def _arguments(*own: str) -> str:
    return ", ".join([*own, *_SHARED])


def _part() -> str:
    """Write the function that runs instructions [%first, %last) over the rows [%begin, %begin + %size)."""
    write = Writer()
    with write.loop("%first", "%last") as number:
        instruction = write.at("%code", write.mul(number, 5), "i64")
        operation, *operands = (_number(write, write.at(instruction, part, "i64")) for part in range(5))
        cases = " ".join(f"i64 {index}, label %case.{each}" for index, each in enumerate(OPERATIONS))
        write.do(f"switch i64 {operation}, label %done [{cases}]")
        for each in OPERATIONS:
            write.label(f"case.{each}")
            _write_operation(write, each, operands)
            write.do("br label %done")
        write.label("done")
    return write.function("internal void @part(" + _arguments(
        "i64 %first", "i64 %last", "i64 %begin", "i64 %size") + ")")


def _number(write: Writer, pointer: str) -> str:
    return write.let(f"load i64, ptr {pointer}, align 8")


def _splat(write: Writer, value: str) -> str:
    first = write.let(f"insertelement {_KIND} poison, double {value}, i32 0")
    return write.let(f"shufflevector {_KIND} {first}, {_KIND} poison, <{LANES} x i32> zeroinitializer")


def _write_operation(write: Writer, name: str, operands: list[str]) -> None:
    """Write one operation for the rows of a block, and for some more: vectors are whole."""
    to, a, b, _ = operands
    if name == "load":
        _load(write, to, a, b)
    elif name == "store":
        source, column = _register(write, a), write.at("%y", write.mul(b, "%count"), "i64")
        with write.loop(0, "%size") as row:
            value = _read(write, source, row, "double")
            write.do(f"store double {value}, ptr {write.at(column, write.add('%begin', row), 'i64')}, align 8")
    else:
        registers = [_register(write, number) for number in operands]
        bits = name in _BITS
        with write.loop(0, "%size", 1 if bits else LANES) as row:
            values = [_read(write, register, row, "double" if bits else _KIND)
                      for register in registers[1:1 + operands_of(name)]]
            result = _bits(write, name, values) if bits else _computed(write, name, values)
            write.do(f"store {'double' if bits else _KIND} {result}, ptr {write.at(registers[0], row, 'i64')}, align 8")


def operands_of(name: str) -> int:
    """The number of operands of an operation that are registers."""
    return {"load": 0, "store": 1, "truth": 1, "not": 1, "choose": 3}.get(name, 2)


def _register(write: Writer, number: str) -> str:
    return write.at("%registers", write.mul(number, BLOCK), "i64")


def _read(write: Writer, register: str, row: str, kind: str) -> str:
    return write.let(f"load {kind}, ptr {write.at(register, row, 'i64')}, align 8")


def _load(write: Writer, to: str, a: str, b: str) -> None:
    """Write the values of a parameter; those of the last row fill the block's last vector."""
    pool, column = write.at("%pool", a, "i64"), write.at("%table", write.mul(b, "%column_pitch"), "i16")
    target, last = _register(write, to), write.i64("sub", "%count", 1)
    padded = write.mul(write.i64("udiv", write.add("%size", LANES - 1), LANES), LANES)
    with write.loop(0, padded) as row:
        number = _number(write, write.at("%rows", write.i64("smin", write.add("%begin", row), last), "i64"))
        index = write.let("load i16, ptr " + write.at(column, write.mul(number, "%row_pitch"), "i16") + ", align 2")
        value = _read(write, pool, write.let(f"zext i16 {index} to i64"), "double")
        write.do(f"store double {value}, ptr {write.at(target, row, 'i64')}, align 8")


def _computed(write: Writer, name: str, values: list[str]) -> str:
    """Write the result of an operation on vectors."""
    zero = "zeroinitializer"
    first, second = values[0], values[1] if len(values) > 1 else ""

    def real(operation: str, left: str, right: str) -> str:
        return write.let(f"{operation} {_KIND} {left}, {right}")

    def compare(relation: str, left: str, right: str) -> str:
        return write.let(f"fcmp {relation} {_KIND} {left}, {right}")

    def select(condition: str, yes: str, no: str) -> str:
        return write.let(f"select <{LANES} x i1> {condition}, {_KIND} {yes}, {_KIND} {no}")

    def truth(condition: str) -> str:
        return write.let(f"uitofp <{LANES} x i1> {condition} to {_KIND}")

    if name in ("truth", "not"):
        return truth(compare("une" if name == "truth" else "oeq", first, zero))
    if name == "check":
        _fail(write, compare("oeq", first, zero))
        return second
    if name in _RELATIONS:
        return truth(compare(_RELATIONS[name], first, second))
    if name == "choose":
        return select(compare("une", first, zero), second, values[2])
    if name in ("minimum", "maximum"):
        return select(compare("olt" if name == "minimum" else "ogt", first, second), first, second)
    plain = name.removesuffix("_real")
    if plain in _LIMITED:
        result = real(_LIMITED[plain], first, second)
        if plain == name:
            size = write.let(f"call {_KIND} @llvm.fabs.v{LANES}f64({_KIND} {result})")
            _fail(write, compare("uge", size, f"splat (double {float(LARGEST):.1f})"))
        return result
    by_zero, one = compare("oeq", second, zero), "splat (double 1.0)"
    divisor = select(by_zero, one, second)
    quotient = real("fdiv", first, divisor)
    if name == "divide":
        return select(by_zero, zero, quotient)
    # the quotient may be rounded to the next whole number: the rest tells
    down = write.let(f"call {_KIND} @llvm.floor.v{LANES}f64({_KIND} {quotient})")
    rest = real("fsub", first, real("fmul", down, divisor))
    size, other = (write.let(f"call {_KIND} @llvm.fabs.v{LANES}f64({_KIND} {value})") for value in (rest, divisor))
    too_small = compare("oge", size, other)
    too_large = compare("olt", real("fmul", rest, divisor), zero)
    if name == "floor":
        result = select(too_large, real("fsub", down, one), select(too_small, real("fadd", down, one), down))
    else:
        result = select(too_large, real("fadd", rest, divisor),
                        select(too_small, real("fsub", rest, divisor), rest))
    return select(by_zero, zero, result)


def _bits(write: Writer, name: str, values: list[str]) -> str:
    """Write the result of an operation on two whole numbers."""
    first, second = (write.let(f"fptosi double {value} to i64") for value in values)
    if name == "gcd":
        result = write.let(f"call i64 @gcd(i64 {first}, i64 {second})")
    elif name in ("left", "right"):  # a shift by too much is a fault, and so is one that loses bits
        few = write.i64("and", second, 63)
        result = write.i64("shl" if name == "left" else "ashr", first, few)
        faults = [write.let(f"icmp ugt i64 {second}, {LARGEST_SHIFT}"),
                  write.let(f"icmp uge i64 {write.let(f'call i64 @llvm.abs.i64(i64 {result}, i1 false)')}, {LARGEST}")]
        if name == "left":
            faults.append(write.let(f"icmp ne i64 {write.i64('ashr', result, few)}, {first}"))
        for fault in faults:
            _set(write, write.let(f"zext i1 {fault} to i64"))
    else:
        result = write.i64(name, first, second)
    return write.let(f"sitofp i64 {result} to double")


def _fail(write: Writer, condition: str) -> None:
    """Set the fault where a condition holds in a lane."""
    _set(write, write.let(f"zext i{LANES} {write.let(f'bitcast <{LANES} x i1> {condition} to i{LANES}')} to i64"))


def _set(write: Writer, flags: str) -> None:
    write.do(f"store i64 {write.i64('or', _number(write, '%fault'), flags)}, ptr %fault, align 8")


def _gcd() -> str:
    """Write the greatest common divisor of two numbers."""
    return "\n".join([
        "define internal i64 @gcd(i64 %a, i64 %b) nounwind {", "entry:",
        "  %x = call i64 @llvm.abs.i64(i64 %a, i1 false)", "  %y = call i64 @llvm.abs.i64(i64 %b, i1 false)",
        "  br label %check", "check:", "  %p = phi i64 [ %x, %entry ], [ %q, %body ]",
        "  %q = phi i64 [ %y, %entry ], [ %r, %body ]", "  %zero = icmp eq i64 %q, 0",
        "  br i1 %zero, label %end, label %body", "body:", "  %r = urem i64 %p, %q", "  br label %check", "end:",
        "  ret i64 %p", "}"])
