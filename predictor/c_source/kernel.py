"""CKernel: the search space of a kernel in C.

The valid values of a parameter after others are found at run time: a depth-first search looks for a configuration that
begins with them. A constraint that fails names the parameters that it reads, as a set of bits, so that the search jumps
back to the last of these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from seqtune.errors import MisuseError
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Kernel, Parameter

from ..sequence.grammar import resolving_columns
from .names import NameTable, OperationNames, comment, literal
from .weights import whole_numbers

MOST_PARAMETERS = 31  # of a kernel: sets of parameters are bits of 32


@dataclass
class CKernel:
    """The functions of one kernel in C, and their table entry."""

    kernel: Kernel
    number: int
    table: NameTable
    functions: list[str]
    quantities: dict[str, tuple[int, int]]  # numeric derived quantities that models read: their columns and slots

    @classmethod
    def of(cls, kernel: Kernel, number: int, work: OperationNames, read: Collection[str]) -> CKernel:
        """Write a kernel; `read` are the derived quantities that models read. Raises ExpressionError, MisuseError."""
        if len(kernel.parameters) > MOST_PARAMETERS:
            raise MisuseError(f"{kernel.name} has {len(kernel.parameters)} parameters; in C there are at most "
                              f"{MOST_PARAMETERS}")
        solves = _solves(kernel, number, work.table)  # the names of problem and device alone
        table = work.table.copy()
        for name in (*kernel.by_name, *(name for name, _ in kernel.derived)):  # a slot of its own
            table.names.pop(name, None)
            table.number.pop(name, None)
        for parameter in kernel.parameters:
            words = [isinstance(value, str) for value in parameter.values]
            if any(words) and not all(words):
                raise MisuseError(f"{kernel.name}: {parameter.name} mixes words and numbers, which C cannot compare")
            kind = "w" if any(words) else "d" if has_fractions(parameter) else "i"
            bound = float(max(abs(int(value)) for value in parameter.values)) if kind == "i" else 0.0
            table.add(parameter.name, kind, bound, never_zero=0 not in parameter.values)
        check, quantities = _Check(kernel, table, read), {}
        columns = resolving_columns(kernel)
        check.write()
        for name, _ in kernel.derived:
            if name in read and table.names[name].kind != "w":
                quantities[name] = columns[name], table.number[name]
        return cls(kernel, number, table, [solves, check.function(number), check.resolving(number)], quantities)

    def values(self) -> str:
        """The tables of the parameters' values, and the kernel's own table of parameters."""
        words = self.table.words
        lines = []
        for column, parameter in enumerate(self.kernel.parameters):
            numbers = [words.number(value) if isinstance(value, str) else int(value) for value in parameter.values]
            lines.append(whole_numbers("int64_t", f"sq_values_{self.number}_{column}", numbers))
            if has_fractions(parameter):
                fractions = ", ".join(repr(float(value)) for value in parameter.values)
                lines.append(f"static const double sq_fractions_{self.number}_{column}[] = {{{fractions}}};")
        entries = ",\n".join(
            f"    {{{literal(parameter.name)}, sq_values_{self.number}_{column}, "
            f"{f'sq_fractions_{self.number}_{column}' if has_fractions(parameter) else '0'}, {len(parameter.values)}, "
            f"{self.table.number[parameter.name]}, {int(not parameter.is_numeric)}}}"
            for column, parameter in enumerate(self.kernel.parameters))
        lines.append(f"static const sq_parameter sq_parameters_{self.number}[] = {{\n"
                     f"{entries or '    {0, 0, 0, 0, 0, 0}'}\n}};")
        return "\n".join(lines)


def has_fractions(parameter: Parameter) -> bool:
    """Whether some values are floats: then C has all of them as doubles, 1.0 included, since 1.0 / 2 is 0.5."""
    return any(isinstance(value, float) for value in parameter.values)


class _Check:
    """The statements that follow each parameter: derived quantities and constraints whose names all have values."""

    def __init__(self, kernel: Kernel, table: NameTable, read: Collection[str]) -> None:
        self._kernel, self._table = kernel, table
        self._column = {parameter.name: column for column, parameter in enumerate(kernel.parameters)}
        self._reads: dict[str, int] = {name: 1 << column for name, column in self._column.items()}
        self._derived = dict(kernel.derived)
        self._used = self._closure({*read, *(name for constraint in kernel.constraints
                                             for name in constraint.expression.names)})
        self._columns = {**self._column, **resolving_columns(kernel)}
        self._statements: dict[str, list[str]] = {}
        self._checks: dict[int, list[str]] = {}
        self._resolved: dict[int, list[str]] = {}

    def write(self) -> None:
        """Write all statements."""
        for name in self._used:
            expression = self._derived[name]
            self._statements[name] = self._table.assign(name, expression)
            self._reads[name] = self._bits(expression)
            self._resolved.setdefault(self._columns[name], []).extend(self._statements[name])
        written: set[str] = set()
        for constraint in sorted(self._kernel.constraints, key=lambda constraint: self._last(constraint.expression)):
            lines = self._checks.setdefault(self._last(constraint.expression), [])
            for name in self._closure(constraint.expression.names):
                if name not in written:
                    written.add(name)
                    self._checks.setdefault(self._columns[name], []).extend(self._statements[name])
            bits = self._bits(constraint.expression)
            lines.append(f"/* {comment(constraint.reason)} */")
            lines += self._table.refuse_unless(constraint.expression, f"UINT32_C({bits or 1 << 31})")

    def _bits(self, expression: Expression) -> int:
        bits = 0
        for name in expression.names:
            bits |= self._reads.get(name, 0)
        return bits

    def _last(self, expression: Expression) -> int:
        return max((self._columns.get(name, -1) for name in expression.names), default=-1)

    def _closure(self, names: Iterable[str]) -> Sequence[str]:
        """The derived quantities among these names, and those that they are computed from, in declared order."""
        wanted = {name for name in names if name in self._derived}
        for name, derived in reversed(self._kernel.derived):
            if name in wanted:
                wanted.update(used for used in derived.names if used in self._derived)
        return [name for name, _ in self._kernel.derived if name in wanted]

    def function(self, number: int) -> str:
        """The function that checks the constraints of a column: 0, or the parameters that a failed one reads."""
        return _switch(f"static uint32_t sq_check_{number}(sq_state *s, int column)", self._checks, "return 0;")

    def resolving(self, number: int) -> str:
        """The function that computes the derived quantities that a column resolves."""
        return _switch(f"static uint32_t sq_resolve_{number}(sq_state *s, int column)", self._resolved, "return 0;")


def _switch(head: str, cases: dict[int, list[str]], end: str) -> str:
    body = [f"{head} {{", "    (void)s;", "    switch (column) {"]
    for column, lines in sorted(cases.items()):
        body += [f"    case {column}:", *(f"        {line}" for line in lines), "        break;"]
    return "\n".join([*body, "    default: break;", "    }", f"    {end}", "}"])


def _solves(kernel: Kernel, number: int, table: NameTable) -> str:
    """The function that says whether the kernel solves the state's problem on its device."""
    backends = " || ".join(f"s->i[{table.number['backend']}] == {table.words.number(name)}"
                           for name in kernel.backends)
    lines = [f"if (!({backends})) return 0;"]
    for condition in kernel.solves:
        lines += [f"if (!({table.known(condition.expression.names)})) return 0;",
                  *table.refuse_unless(condition.expression, "0")]
    lines.append(f"if (!({table.known(kernel.names_read())})) return 0;")
    return "\n".join([f"static int sq_solves_{number}(sq_state *s) {{", *(f"    {line}" for line in lines),
                      "    return 1;", "}"])
