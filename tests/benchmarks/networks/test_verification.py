"""The rows and the table of what networks gain by their verification."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.networks.verification import CONTROL, PREDICTED, VERIFIED, kept, row_of, table
from seqtune.errors import FormatError, MisuseError
from seqtune.networks.selection.reports import NetworkVerification

REPORT = NetworkVerification(60.0, 66.0, 21, 9, 8, 1.2, 0.01)


@pytest.mark.parametrize(("verified", "is_loss"), [(0.9, False), (1.0, False), (1.04, False), (1.2, True)])
def test_a_loss_is_more_than_the_control_s_spread(verified: float, is_loss: bool) -> None:
    row = row_of({PREDICTED: [1.0] * 4, CONTROL: [1.05, 0.95, 0.95, 1.05], VERIFIED: [verified] * 4}, REPORT)
    assert row["ratio"] == pytest.approx(1 / verified, rel=0.06)
    assert row["control"] == pytest.approx(1.0, rel=0.06)
    assert 0.08 < row["spread"] < 0.12
    assert row["is_loss"] == is_loss
    assert row["in_budget"] == pytest.approx(1.1)
    json.dumps(row, allow_nan=False)


def test_the_table_names_losses_and_the_time_used() -> None:
    rows = [{"model": name, "by_pytorch": None, **row_of(
        {PREDICTED: [1.0] * 4, CONTROL: [1.0] * 4, VERIFIED: [seconds] * 4}, REPORT)}
        for name, seconds in (("A", 0.5), ("B", 2.0))]
    text = table(rows)
    assert "| A | 500.00 | 2.000 |" in text
    assert "| B | 2000.00 | 0.500 (loss) |" in text
    assert "Verified networks have 1.000 times the speed" in text
    assert "1 lose more" in text
    assert "at most 1.10 of the budget" in text


def test_kept_rows_belong_to_their_options(tmp_path: Path) -> None:
    state = tmp_path / "rows.json"
    assert kept(None, {}) == kept(state, {}) == {}
    state.write_text(json.dumps({"options": {"budget": 60.0}, "rows": [{"model": "A"}]}))
    assert kept(state, {"options": {"budget": 60.0}}) == {"A": {"model": "A"}}
    with pytest.raises(MisuseError, match="other options"):
        kept(state, {"options": {"budget": 30.0}})
    state.write_text("{}")
    with pytest.raises(FormatError, match="no rows of this program"):
        kept(state, {})
