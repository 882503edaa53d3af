"""Positions of keys and values in TOML texts of every form."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from seqtune.kernels.libraries.fault import KEY
from seqtune.kernels.libraries.reading import Positions

TEXT = """# a comment with [brackets] and = signs
top = 1
dotted.key . "quoted key" = 'value'   # after

[table.inner]
array = [ 1, [2, 3], # 4
    "five", {six = 7, seven.eight = [9]},
]
'literal.key' = \"\"\"
text = "no key"
[no.table] \\\"\"\" \"\"\"
inline = {a = {b = "},]", c = '''x'''}, d = 1979-05-27T07:32:00Z}

[[many]]
x = 1
[[many]]
x = 2
[many.below]
y = 3
  [ spaced . "out" ]
z = -inf
"""


@pytest.mark.parametrize(("path", "line", "column", "begins"), [
    (("top",), 2, 7, "1"), (("top", KEY), 2, 1, "top"),
    (("dotted", "key", "quoted key"), 3, 29, "'value'"), (("dotted", "key", "quoted key", KEY), 3, 14, '"quoted'),
    (("dotted", "key", KEY), 3, 8, "key"),
    (("table",), 5, 1, "[table"), (("table", "inner", "array"), 6, 9, "["),
    (("table", "inner", "array", 0), 6, 11, "1"), (("table", "inner", "array", 1, 1), 6, 18, "3"),
    (("table", "inner", "array", "five"), 7, 5, '"five"'),
    (("table", "inner", "array", 3, "seven", "eight", 0), 7, 38, "9"),
    (("table", "inner", "literal.key", KEY), 9, 1, "'literal"), (("table", "inner", "inline", "a", "c"), 12, 31, "'"),
    (("table", "inner", "inline", "d"), 12, 45, "1979"), (("table", "inner", "inline", "d", KEY), 12, 41, "d"),
    (("many", 1, "x"), 17, 5, "2"), (("many", 1, "below", "y"), 19, 5, "3"), (("spaced", "out", "z"), 21, 5, "-inf"),
    (("table", "inner", "array", "function-plain", 0, "missing"), 6, 11, "1"), (("absent",), 1, 1, "#"),
])
def test_the_position_is_where_the_key_or_the_value_begins(path: Any, line: int, column: int, begins: str) -> None:
    positions = Positions(TEXT, tomllib.loads(TEXT))
    assert positions.at(path) == (line, column)
    assert TEXT.split("\n")[line - 1][column - 1:].startswith(begins)
