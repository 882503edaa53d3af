"""Expressions in C have the values that Python's have over columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from seqtune.errors import ExpressionError
from seqtune.kernels.expression import Expression
from seqtune.predictor.c_source.expression import Words
from seqtune.predictor.c_source.file import runtime
from seqtune.predictor.c_source.names import NameTable, identifier
from tests.support.learning.c_programs import needs_compiler, run_program

TEXTS = (
    "a // b", "a % b", "-a // b", "a / b", "a // 3 * 3 + a % 3 - a", "a ** 2 - b ** 3", "2 ** -2 * a", "a < b <= c",
    "a < b == c > 2", "a and b", "a or b", "a and b or c", "not a or b > c", "(a and 2) + (b or 5)",
    "a if b > c else b", "(a if b else c / 2) * 2", "{1: 5, 2: 7, 3: 9}[1 if a < 0 else 2 if a < 5 else 3]",
    "a in (1, 2, 3)", "a not in (1, 2) and b in {4: 1, 5: 2}", "min(a, b, c)", "max((a, b)) - min(a, 2.5)",
    "gcd(a, b) + lcm(b, c)", "ceil_div(a, 7) + round_up(b, 8)", "abs(a - b) >> 1", "(abs(a) << 3) & 12 | 1 ^ b",
    "word == 'x' or word in ('y', 'z')", "(word if a > b else 'x') != 'y'",
    "{'x': 4, 'y': 2, 'z': 1, 'w': 0}[word] + a",
    "big * big * big // (b * b + 1)", "big * big * big // 7 > big and a > b", "big * big * big * big > a * a",
    "round_up(big * big, b * b + 1) > 0", "a * 1.5 // b", "a * 1.5 % b", "+a - -b", "(a > b) + (b > c) * 2",
    "a and b / a", "b == 0 or a % b == 0", "b != 0 and a % b == 0", "(b and a // b) + c", "c if b == 0 else a / b",
    "{0: 1, 1: a // c}[1 if c else 0]", "a in (b // c, 3)", "not (a % c == 0)", "0 ** (a // 8)", "1 < a % b < 5",
    "big * big * big // (a * big) > b", "a / max(1, b) + a % (c * c + 1)", "b / min(a, 3) + (ceil_div(a, b) or c)",
    "a > b and (b > 0 or c) and 3", "True and a < 3", "max(1 - a * (a + 1) / (b * b + 1), 0)",
)
ROWS = 60


def values() -> dict[str, np.ndarray]:
    """Random columns; `big` does not have 64 bits once it is multiplied by itself."""
    generator = np.random.default_rng(3)
    small = {name: generator.integers(-20, 40, ROWS) * (generator.random(ROWS) > 0.15) for name in "abc"}
    return {**small, "big": generator.integers(2**38, 2**40, ROWS), "word": generator.choice(list("wxyz"), ROWS)}


@needs_compiler
def test_c_computes_what_python_computes(tmp_path: Path) -> None:
    words, columns = Words(), values()
    table = NameTable(words, 0)
    for name in "abc":
        table.add(name, "i", 40.0)
    table.add("big", "i", 2.0**40)
    table.add("word", "w")
    functions = []
    for number, text in enumerate(TEXTS):
        own = table.copy()
        own.slots = 10
        lines = own.assign("result", Expression(text))
        lines.append("" if own.names["result"].defined else "s->known[10] = 1;")
        lines.append('if (!s->known[10]) { printf("nan\\n"); return; }')
        shown = "d" if own.names["result"].kind == "d" else "i"
        functions.append(f"static void f{number}(sq_state *s) {{\n" + "\n".join(lines) + "\n"
                         + ('printf("%.17g\\n", s->big[10] ? s->d[10] : (double)s->i[10]);' if shown == "i" else
                            'printf("%.17g\\n", s->d[10]);') + "\n}")
    rows = [", ".join(str(words.number(str(column[row])) if name == "word" else int(column[row]))
                      for name, column in columns.items()) for row in range(ROWS)]
    order = [table.number[name] for name in columns]
    calls = "\n".join(f"memset(s.big, 0, sizeof s.big); f{number}(&s);" for number in range(len(TEXTS)))
    program = "\n".join([
        "#include <math.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <string.h>",
        "#define SQ_UNUSED __attribute__((unused))",
        "typedef struct { int over, undefined, fault, holds; int64_t i[16]; double d[16];",
        "    unsigned char big[16], known[16]; } sq_state;",
        runtime("arithmetic"), *functions, f"static const int64_t rows[][{len(columns)}] = {{",
        ",\n".join(f"{{{row}}}" for row in rows), "};", "int main(void) {", "sq_state s; int row;",
        "memset(&s, 0, sizeof s);", f"for (row = 0; row < {ROWS}; ++row) {{",
        *(f"s.i[{slot}] = rows[row][{index}];" for index, slot in enumerate(order)), calls, "}",
        "return s.fault;", "}"])
    (tmp_path / "program.c").write_text(program)
    printed = [float(line) for line in run_program(tmp_path / "program.c", "-O1").split()]
    computed = np.array(printed).reshape(ROWS, len(TEXTS)).T
    for text, row in zip(TEXTS, computed, strict=True):
        expected = np.broadcast_to(np.asarray(Expression(text)(columns)), ROWS)
        numbers = [float("nan" if value is None else value) for value in expected.tolist()]  # None: undefined
        assert row.tolist() == pytest.approx(numbers, rel=1e-12, nan_ok=True), text


@pytest.mark.parametrize("text", ["word + 1", "word < 'x'", "(1 if word == 'x' else 'a') == 1", "gcd(a / 2, 3)",
                                  "(1, 2)", "a in word"])
def test_expressions_without_a_form_in_c_are_refused(text: str) -> None:
    table = NameTable(Words(), 0)
    table.add("a", "i", 10.0)
    table.add("word", "w")
    with pytest.raises(ExpressionError):
        table.assign("result", Expression(text))


def test_words_of_c_and_cpp_are_no_names_in_a_header() -> None:
    assert [identifier(name) for name in ("int", "class", "new", "2d", "size")] == [
        "int_", "class_", "new_", "_2d", "size"]
