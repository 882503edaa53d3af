"""NameTable: the slots in which the C code keeps the values of features, derived sizes, device facts and parameters."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from seqtune.kernels.expression import Expression
from seqtune.kernels.operations.feature import Feature
from seqtune.kernels.operations.operation import Operation

from .expression import CExpression, CName, Words

LARGEST_FACT = 2.0**40  # of whole numbers that describe a device; the C code refuses larger ones
WORD_FACTS = ("backend", "instruction_set", "architecture")
NUMBER_FACTS = ("threads", "compute_units", "vector_floats", "vector_registers", "l1_bytes", "l2_bytes", "l3_bytes",
                "local_memory", "max_work_group")
RATE_FACTS = ("peak_gflops", "bandwidth_gbs")  # no expression can name them

_KEYWORDS = frozenset((  # of C99, then those that C++, which may include the header, has in addition
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern",
    "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed",
    "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while",
    "alignas", "alignof", "and", "asm", "bitand", "bitor", "bool", "catch", "class", "compl", "concept", "constexpr",
    "decltype", "delete", "explicit", "export", "false", "friend", "mutable", "namespace", "new", "noexcept", "not",
    "nullptr", "operator", "or", "private", "protected", "public", "requires", "template", "this", "throw", "true",
    "try", "typeid", "typename", "using", "virtual", "xor"))


def identifier(name: str) -> str:
    """The name as an identifier of C."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"{plain}_" if plain in _KEYWORDS else plain if re.match(r"[A-Za-z_]", plain) else f"_{plain}"


def comment(text: str) -> str:
    """The text as the inside of a comment of C: one line, printable characters."""
    line = " ".join(text.split()).replace("*/", "* /").replace("/*", "/ *").replace("\\", "/")
    return re.sub(r"[^ -~]", "?", line)


def literal(text: str) -> str:
    """The text as a string literal of C."""
    pieces = [character if " " <= character <= "~" and character not in '"\\?' else "".join(
        f"\\{byte:03o}" for byte in character.encode()) for character in text]
    return '"' + "".join(pieces) + '"'


@dataclass
class NameTable:
    """Named values and their slots; a slot holds a whole number or word `i`, and a number `d`."""

    words: Words
    slots: int
    names: dict[str, CName] = field(default_factory=dict)
    number: dict[str, int] = field(default_factory=dict)  # the slot of each name

    def copy(self) -> NameTable:
        """A table that begins with the same names."""
        return NameTable(self.words, self.slots, dict(self.names), dict(self.number))

    def add(self, name: str, kind: str, bound: float = 0.0, wide: bool = False, never_zero: bool = False,
            undefinable: bool = False) -> int:
        """Give a name a slot; a name that has one keeps it."""
        slot = self.number.get(name)
        if slot is None:
            slot, self.slots = self.slots, self.slots + 1
        known = self.names.get(name)
        if known is not None and known.kind == "i":
            bound, wide = max(bound, known.bound), wide or bool(known.wide)
        if known is not None:
            never_zero, undefinable = never_zero and known.never_zero, undefinable or bool(known.defined)
        self.number[name] = slot
        text = f"s->d[{slot}]" if kind == "d" else f"s->i[{slot}]"
        self.names[name] = CName(text, kind, bound, f"s->d[{slot}]" if wide else "", f"s->big[{slot}]" if wide else "",
                                 never_zero, f"s->known[{slot}]" if undefinable else "")
        return slot

    def assign(self, name: str, expression: Expression, most: float = math.inf) -> list[str]:
        """The statements that compute a named value; the name gets a slot. Raises ExpressionError.

        They say whether it is known, where it may be undefined. `most` is that of `CExpression.of`.
        """
        written = CExpression.of(expression, self.names, self.words, most)
        slot = self.add(name, written.kind, written.bound, bool(written.wide) and written.kind == "i",
                        undefinable=written.undefinable)
        lines = self._assigned(written, name, slot)
        if not self.names[name].defined:
            return lines
        value = self.names[name]
        zero = f"{value.text} = 0{f', {value.wide} = 0, {value.over} = 0' if value.wide else ''};"  # as models read it
        return ["s->undefined = 0;", *lines, f"s->known[{slot}] = !s->undefined;", f"if (s->undefined) {zero}"]

    def _assigned(self, written: CExpression, name: str, slot: int) -> list[str]:
        anew = ["if (s->over) s->undefined = 0;"] if written.undefinable else []
        target = self.names[name].text
        if not written.wide:
            return [f"{target} = {written.text};"]
        if written.kind == "i":
            return ["s->over = 0;", f"{target} = {written.text};", f"s->big[{slot}] = (unsigned char)s->over;",
                    *anew, f"s->d[{slot}] = s->over ? {written.wide} : (double){target};"]
        kept = f"if (s->over) {target} = {_cast(written)}{written.wide};"
        return ["s->over = 0;", f"{target} = {written.text};", *anew, kept]

    def refuse_unless(self, expression: Expression, refusal: str, most: float = math.inf) -> list[str]:
        """The statements that leave a function with `refusal` unless a condition holds. Raises ExpressionError."""
        written = CExpression.of(expression, self.names, self.words, most)
        if not written.wide and not written.undefinable:
            return [f"if (!({written.text})) return {refusal};"]
        lines = ["s->over = s->undefined = 0;", f"s->holds = ({written.text}) != 0;"]
        if written.wide:
            lines.append(f"if (s->over) s->undefined = 0, s->holds = ({written.wide}) != 0;")
        return [*lines, f"if (s->undefined || !s->holds) return {refusal};"]

    def known(self, names: Iterable[str]) -> str:
        """The condition that all these names have values."""
        slots = [self.number[name] for name in dict.fromkeys(names)]
        return " && ".join(f"s->known[{slot}]" for slot in slots) or "1"


def _cast(written: CExpression) -> str:
    return "(int64_t)" if written.kind == "w" else ""


def device_names(words: Words, extras: Sequence[str]) -> NameTable:
    """The names of a device's facts."""
    table = NameTable(words, 0)
    for name in WORD_FACTS:
        table.add(name, "w")
    for name in (*NUMBER_FACTS, *extras):
        table.add(name, "i", LARGEST_FACT)
    for name in RATE_FACTS:
        table.add(f"device.{name}", "d")
    return table


def feature_kind(feature: Feature) -> str:
    """The kind of a feature's values in C."""
    return "w" if feature.choices else "d" if feature.number else "i"


@dataclass
class OperationNames:
    """The names of an operation's problems on a device, and the statements that compute them."""

    operation: Operation
    table: NameTable
    listed: tuple[str, ...]  # features and derived sizes in the order of `Problem.names`
    derived: list[str]
    rules: list[str]

    @classmethod
    def of(cls, operation: Operation, device: NameTable) -> OperationNames:
        """Write an operation's derived sizes and rules. Raises ExpressionError."""
        table = device.copy()
        listed: dict[str, None] = {}
        for feature in operation.features:
            table.add(feature.name, feature_kind(feature), float(max(abs(feature.low), abs(feature.high))),
                      never_zero=feature.number or feature.low > 0)
            listed[feature.name] = None
        lines: list[str] = []
        for name, expression in operation.derived:
            first = name not in listed
            listed[name] = None
            statements = table.assign(name, expression)
            slot = table.number[name]
            lines += [f"if ({'' if first else f'!s->known[{slot}] && '}{table.known(expression.names)}) {{",
                      *(f"    {line}" for line in statements),
                      *([] if table.names[name].defined else [f"    s->known[{slot}] = 1;"]), "}"]
        rules: list[str] = []
        for expression, reason in operation.rules:
            rules += [f"if ({table.known(expression.names)}) {{ /* {comment(reason)} */",
                      *(f"    {line}" for line in table.refuse_unless(expression, "SEQTUNE_ERROR_PROBLEM")), "}"]
        return cls(operation, table, tuple(listed), lines, rules)
