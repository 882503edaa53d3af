"""Copies of choices among GPUs of one chip."""

from __future__ import annotations

from pathlib import Path

from seqtune.data.chosen_tasks import choice_weights, copies_note
from seqtune.data.dataset import Dataset
from tests.support.records import RECORDS, write_journal


def test_measurements_weigh_one_each(tmp_path: Path) -> None:
    from seqtune.data.journal.journal import Journal

    with Journal(write_journal(tmp_path / "journal.sqlite", RECORDS)) as journal:
        data = Dataset.from_journal(journal)
    assert choice_weights(data).tolist() == [1] * len(data)
    assert copies_note(data) == ()
