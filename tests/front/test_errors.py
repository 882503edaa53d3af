"""Messages of errors: one line, whatever the library that raised them wrote."""

from __future__ import annotations

import pytest

from seqtune.api.inputs import check_positive, check_share
from seqtune.errors import CheckpointError, MisuseError, ProblemError, one_line, shown
from seqtune.kernels.problem import Problem
from seqtune.predictor.predictors import cached_checkpoint

HUGE = 10**5000  # Python writes at most 4300 digits


@pytest.mark.parametrize(("error", "line"), [
    (ValueError("the driver\n  broke\n"), "the driver broke"), ("two\nlines", "two lines"),
    (MemoryError(), "MemoryError"), ("x" * 1000, "x" * 297 + "...")])
def test_any_error_becomes_one_short_line(error: BaseException | str, line: str) -> None:
    assert one_line(error) == line


def test_a_line_may_be_shorter_still() -> None:
    assert one_line("abcdef", 5) == "ab..."


class Mute:
    """A value that cannot be written."""

    def __repr__(self) -> str:
        raise OSError("no text")


def test_any_value_can_be_shown_in_a_message() -> None:
    assert [shown(value) for value in (3, "x" * 100, [-HUGE], Mute(), HUGE)] == [
        "3", "'" + "x" * 35 + "'...", "<a list>", "<a Mute>", "<an int of 16610 bits>"]


def test_a_number_of_too_many_digits_is_refused_in_one_line() -> None:
    with pytest.raises(MisuseError, match=r"^seconds=<an int of 16610 bits>; it must be a positive number$"):
        check_positive("seconds", HUGE)
    with pytest.raises(MisuseError, match=r"^share=<an int of 16610 bits>; it must be a share"):
        check_share("share", HUGE)
    with pytest.raises(CheckpointError, match=r"^checkpoint=<an int of 16610 bits> is not the name"):
        cached_checkpoint(HUGE)  # type: ignore[arg-type]
    for features in ({"m": HUGE}, {"m": 3, "trans_a": HUGE}, {"m": 3, "tolerance": HUGE}):
        with pytest.raises(ProblemError, match="=<an int of 16610 bits> is "):
            Problem.make("gemm", **{"n": 3, "k": 3, **features})
