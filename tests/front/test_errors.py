"""Messages of errors: one line, whatever the library that raised them wrote."""

from __future__ import annotations

import pytest

from seqtune.errors import one_line


@pytest.mark.parametrize(("error", "line"), [
    (ValueError("the driver\n  broke\n"), "the driver broke"), ("two\nlines", "two lines"),
    (MemoryError(), "MemoryError"), ("x" * 1000, "x" * 300)])
def test_any_error_becomes_one_short_line(error: BaseException | str, line: str) -> None:
    assert one_line(error) == line


def test_a_line_may_be_shorter_still() -> None:
    assert one_line("abcdef", 3) == "abc"
