"""Program text: the LLVM IR of functions that run programs of arithmetic: over rows of a space, or to find its rows.

A kernel's derived quantities are expressions. NumPy would make a call for every operator, each of which takes longer
than the numbers of a beam; and machine code for each kernel would take longer to compile than a program takes to write.
A program is a list of instructions, five numbers each: an operation, the register that it writes, and up to three
operands. A register holds a double for each row of a block.

Whole numbers are doubles, too, and exact: a result that is not below LARGEST sets the fault, and so does whatever else
NumPy may treat otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping

from seqtune.kernels.arithmetic import LARGEST_SHIFT
from seqtune.kernels.llvm.text.writer import Writer, declarations

BLOCK = 64  # rows that go through a program together, so that the registers stay in the caches
LARGEST = 1 << 50  # the quotient of two whole numbers is right but for one, and its products are exact
LANES = 8  # doubles of a vector

SIGNATURES = {
    "run": "ptr %code, i64 %uniform_end, i64 %end, ptr %inputs, i64 %input_count, ptr %registers, ptr %pool, "
           "ptr %table, i64 %row_pitch, i64 %column_pitch, ptr %rows, i64 %count, ptr %y, ptr %fault",
    # Prefixes of configurations: `before` (prefix, `quads` of four value indices), each with `saved` numbers.
    "extend": "ptr %code, i64 %own_end, i64 %own_condition, i64 %end, i64 %condition, ptr %registers, ptr %pool, "
              "i64 %prefixes, i64 %value_count, i64 %column, i64 %quads, ptr %before, ptr %saved, i64 %saved_pitch, "
              "ptr %kept, i64 %kept_count, ptr %allowed, ptr %after, ptr %parents, ptr %numbers, i64 %pitch, "
              "ptr %fault, ptr %found"}

_RELATIONS = {"equal": "oeq", "different": "une", "less": "olt", "at_most": "ole"}
_LIMITED = {"add": "fadd", "subtract": "fsub", "multiply": "fmul"}  # of whole numbers; those of others end with _real
_BITS = ("gcd", "left", "right", "and", "or", "xor")
# Operations in the order of their numbers. The truth is 0 or 1.
OPERATIONS = (
    "load",  # a: offset in the pool, b: column of the table
    "value",  # a: offset in the pool of the values of the parameter that is added
    "carry",  # a: a number that is saved with each prefix
    "store",  # a: what is written, b: column of the result
    "truth", "not", "check",  # check: b, where a must be true in every row
    *_LIMITED, *(f"{name}_real" for name in _LIMITED), "divide", "floor", "rest", "minimum", "maximum", *_RELATIONS,
    "choose",  # choose: b where a is true, else c
    *_BITS)
CODES = {name: number for number, name in enumerate(OPERATIONS)}
_KIND, _MASK = f"<{LANES} x double>", f"<{LANES} x i1>"
_SHARED = ("ptr %code", "ptr %registers", "ptr %pool", "ptr %table", "i64 %row_pitch", "i64 %column_pitch",
           "ptr %rows", "i64 %count", "ptr %y", "ptr %fault", "ptr %owners", "ptr %indices", "ptr %saved",
           "i64 %saved_pitch")
_NO_PREFIXES = {"ptr %owners": "ptr null", "ptr %indices": "ptr null", "ptr %saved": "ptr null",
                "i64 %saved_pitch": "i64 0"}
_NO_ROWS = {"ptr %table": "ptr null", "i64 %row_pitch": "i64 0", "i64 %column_pitch": "i64 0", "ptr %rows": "ptr null",
            "i64 %count": "i64 0", "ptr %y": "ptr null"}


def program_text(bits: int) -> str:
    """The module; LLVM cuts its vectors into the CPU's own."""
    return "\n".join([
        declarations(), "declare i64 @llvm.abs.i64(i64, i1)", f"declare {_KIND} @llvm.floor.v{LANES}f64({_KIND})",
        f"declare {_KIND} @llvm.fabs.v{LANES}f64({_KIND})", _gcd(), _part(), _run(), _extend()])


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
    _call(write, _NO_PREFIXES, "0", "%uniform_end", "0", str(BLOCK))
    with write.loop(0, "%count", BLOCK) as begin:
        size = write.i64("smin", write.i64("sub", "%count", begin), BLOCK)
        _call(write, _NO_PREFIXES, "%uniform_end", "%end", begin, size)
    return write.function(f"void @run({SIGNATURES['run']})")


def _call(write: Writer, others: Mapping[str, str], *numbers: str) -> None:
    """Run a part; the arguments are those of the same names, except the `others`."""
    given = [f"i64 {number}" for number in numbers] + [others.get(each, each) for each in _SHARED]
    write.do(f"call void @part({', '.join(given)})")


def _extend() -> str:
    """Write the function that adds a parameter to prefixes: each prefix with each value that constraints allow.

    The constraints on the parameter alone are checked first, by the instructions before %own_end. The registers hold
    uniform numbers from before. A condition of -1 always holds. `found` gets the number of longer prefixes.
    """
    write = Writer()
    owners, indices = (write.let(f"alloca [{BLOCK} x i64], align 64") for _ in range(2))
    # numbers that change: allowed values, then the prefix and the value of the next candidate, and the prefixes found
    allowed, owner, position, found = (write.let("alloca i64, align 8") for _ in range(4))
    for pointer in (allowed, owner, position, found):
        _put(write, "0", pointer)
    others = {**_NO_ROWS, "ptr %owners": f"ptr {owners}", "ptr %indices": f"ptr {indices}"}

    def size_of(begin: str, count: str) -> tuple[str, str]:
        size = write.i64("smin", write.i64("sub", count, begin), BLOCK)
        return size, write.mul(write.i64("udiv", write.add(size, LANES - 1), LANES), LANES)

    def holds(condition: str, row: str) -> str:
        known = write.i64("smax", condition, 0)
        value = _read(write, _register(write, known), row, "double")
        always = write.let(f"icmp slt i64 {condition}, 0")
        return write.let(f"or i1 {always}, {write.let(f'fcmp une double {value}, 0.0')}")

    with write.loop(0, "%value_count", BLOCK) as begin:
        size, padded = size_of(begin, "%value_count")
        last = write.i64("sub", "%value_count", 1)
        with write.loop(0, padded) as row:
            _put(write, "0", write.at(owners, row, "i64"))
            _put(write, write.i64("smin", write.add(begin, row), last), write.at(indices, row, "i64"))
        _call(write, others, "0", "%own_end", "0", size)
        with write.loop(0, size) as row, write.when(holds("%own_condition", row)):
            count = _number(write, allowed)
            _put(write, write.add(begin, row), write.at("%allowed", count, "i64"))
            _put(write, write.add(count, 1), allowed)
    width = _number(write, allowed)
    total = write.mul("%prefixes", width)
    with write.loop(0, total, BLOCK) as begin:
        size, padded = size_of(begin, total)
        with write.loop(0, padded) as row:  # beyond the last candidate, it is repeated
            prefix, number = _number(write, owner), _number(write, position)
            _put(write, prefix, write.at(owners, row, "i64"))
            _put(write, _number(write, write.at("%allowed", number, "i64")), write.at(indices, row, "i64"))
            following = write.add(number, 1)
            full = write.let(f"icmp eq i64 {following}, {width}")
            next_prefix = write.add(prefix, write.let(f"zext i1 {full} to i64"))
            is_last = write.let(f"icmp eq i64 {next_prefix}, %prefixes")
            stays = write.let(f"select i1 {is_last}, i64 {number}, i64 0")
            _put(write, write.let(f"select i1 {full}, i64 {stays}, i64 {following}"), position)
            _put(write, write.let(f"select i1 {is_last}, i64 {prefix}, i64 {next_prefix}"), owner)
        _call(write, others, "%own_end", "%end", "0", size)
        with write.loop(0, size) as row, write.when(holds("%condition", row)):
            count = _number(write, found)
            prefix = _number(write, write.at(owners, row, "i64"))
            to = write.at("%after", write.mul(count, "%quads"), "i64")
            source = write.at("%before", write.mul(prefix, "%quads"), "i64")
            with write.loop(0, "%quads") as quad:
                _put(write, _number(write, write.at(source, quad, "i64")), write.at(to, quad, "i64"))
            index = write.let(f"trunc i64 {_number(write, write.at(indices, row, 'i64'))} to i16")
            write.do(f"store i16 {index}, ptr {write.at(to, '%column', 'i16')}, align 2")
            _put(write, prefix, write.at("%parents", count, "i64"))
            with write.loop(0, "%kept_count") as kept:
                register = _register(write, _number(write, write.at("%kept", kept, "i64")))
                value = _read(write, register, row, "double")
                number = write.at("%numbers", write.add(write.mul(kept, "%pitch"), count), "i64")
                write.do(f"store double {value}, ptr {number}, align 8")
            _put(write, write.add(count, 1), found)
    _put(write, _number(write, found), "%found")
    return write.function(f"void @extend({SIGNATURES['extend']})")


def _put(write: Writer, number: str, pointer: str) -> None:
    write.do(f"store i64 {number}, ptr {pointer}, align 8")


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
    parameters = ("i64 %first", "i64 %last", "i64 %begin", "i64 %size", *_SHARED)
    return write.function(f"internal void @part({', '.join(parameters)})")


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
    elif name in ("value", "carry"):
        base, numbers = (write.at("%pool", a, "i64"), "%indices") if name == "value" else (
            write.at("%saved", write.mul(a, "%saved_pitch"), "i64"), "%owners")
        target = _register(write, to)
        with write.loop(0, _padded(write)) as row:
            value = _read(write, base, _number(write, write.at(numbers, row, "i64")), "double")
            write.do(f"store double {value}, ptr {write.at(target, row, 'i64')}, align 8")
    elif name == "store":
        source, column = _register(write, a), write.at("%y", write.mul(b, "%count"), "i64")
        with write.loop(0, "%size") as row:
            value = _read(write, source, row, "double")
            write.do(f"store double {value}, ptr {write.at(column, write.add('%begin', row), 'i64')}, align 8")
    else:
        target, *registers = (_register(write, number) for number in operands[:1 + operands_of(name)])
        if name in _BITS:
            with write.loop(0, "%size") as row:
                result = _bits(write, name, [_read(write, register, row, "double") for register in registers])
                write.do(f"store double {result}, ptr {write.at(target, row, 'i64')}, align 8")
            return

        def step(carried: list[str]) -> list[str]:
            row, fault = carried
            result, failed = _computed(write, name, [_read(write, register, row, _KIND) for register in registers])
            write.do(f"store {_KIND} {result}, ptr {write.at(target, row, 'i64')}, align 8")
            return [write.add(row, LANES), write.let(f"or {_MASK} {fault}, {failed}") if failed else fault]

        vectors = write.i64("udiv", write.add("%size", LANES - 1), LANES)
        fault = write.repeat(vectors, [("i64", "0"), (_MASK, "zeroinitializer")], step)[1]
        if name == "check" or name in _LIMITED:
            bits = write.let(f"bitcast {_MASK} {fault} to i{LANES}")
            _set(write, write.let(f"zext i{LANES} {bits} to i64"))


def operands_of(name: str) -> int:
    """The number of operands of an operation that are registers."""
    return {"load": 0, "value": 0, "carry": 0, "store": 1, "truth": 1, "not": 1, "choose": 3}.get(name, 2)


def _register(write: Writer, number: str) -> str:
    return write.at("%registers", write.mul(number, BLOCK), "i64")


def _read(write: Writer, register: str, row: str, kind: str) -> str:
    return write.let(f"load {kind}, ptr {write.at(register, row, 'i64')}, align 8")


def _padded(write: Writer) -> str:
    """The rows of a block up to the end of the last vector."""
    return write.mul(write.i64("udiv", write.add("%size", LANES - 1), LANES), LANES)


def _load(write: Writer, to: str, a: str, b: str) -> None:
    """Write the values of a parameter; those of the last row fill the block's last vector."""
    pool, column = write.at("%pool", a, "i64"), write.at("%table", write.mul(b, "%column_pitch"), "i16")
    target, last = _register(write, to), write.i64("sub", "%count", 1)
    with write.loop(0, _padded(write)) as row:
        number = _number(write, write.at("%rows", write.i64("smin", write.add("%begin", row), last), "i64"))
        index = write.let("load i16, ptr " + write.at(column, write.mul(number, "%row_pitch"), "i16") + ", align 2")
        value = _read(write, pool, write.let(f"zext i16 {index} to i64"), "double")
        write.do(f"store double {value}, ptr {write.at(target, row, 'i64')}, align 8")


def _computed(write: Writer, name: str, values: list[str]) -> tuple[str, str]:
    """Write the result of an operation on vectors, and the lanes in which it fails; empty if it never does."""
    zero = "zeroinitializer"
    first, second = values[0], values[1] if len(values) > 1 else ""

    def real(operation: str, left: str, right: str) -> str:
        return write.let(f"{operation} {_KIND} {left}, {right}")

    def compare(relation: str, left: str, right: str) -> str:
        return write.let(f"fcmp {relation} {_KIND} {left}, {right}")

    def select(condition: str, yes: str, no: str) -> str:
        return write.let(f"select {_MASK} {condition}, {_KIND} {yes}, {_KIND} {no}")

    def truth(condition: str) -> str:
        return write.let(f"uitofp {_MASK} {condition} to {_KIND}")

    if name in ("truth", "not"):
        return truth(compare("une" if name == "truth" else "oeq", first, zero)), ""
    if name == "check":
        return second, compare("oeq", first, zero)
    if name in _RELATIONS:
        return truth(compare(_RELATIONS[name], first, second)), ""
    if name == "choose":
        return select(compare("une", first, zero), second, values[2]), ""
    if name in ("minimum", "maximum"):
        return select(compare("olt" if name == "minimum" else "ogt", first, second), first, second), ""
    plain = name.removesuffix("_real")
    if plain in _LIMITED:
        result = real(_LIMITED[plain], first, second)
        if plain != name:
            return result, ""
        size = write.let(f"call {_KIND} @llvm.fabs.v{LANES}f64({_KIND} {result})")
        return result, compare("uge", size, f"splat (double {float(LARGEST):.1f})")
    by_zero, one = compare("oeq", second, zero), "splat (double 1.0)"
    divisor = select(by_zero, one, second)
    quotient = real("fdiv", first, divisor)
    if name == "divide":
        return select(by_zero, zero, quotient), ""
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
    return select(by_zero, zero, result), ""


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
