"""Copies of choices among GPUs of one chip."""

from __future__ import annotations

from pathlib import Path

from seqtune.data.copies import choice_weights, copies_note
from seqtune.data.dataset import Dataset
from seqtune.data.formats.served_choices import read_choices
from seqtune.data.serving.table_file import table_text
from tests.support.records import RECORDS, write_journal

TABLE = {tokens: {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1, "num_warps": 4,
                  "num_stages": 2} for tokens in (1, 16)}


def test_equal_choices_of_one_chip_weigh_once_together(tmp_path: Path) -> None:
    changed = {**TABLE, 16: {**TABLE[16], "num_warps": 8}}
    for device, table in (("AMD_Instinct_MI300X", TABLE), ("AMD_Instinct_MI325X", changed), ("NVIDIA_A100", TABLE)):
        (tmp_path / f"E=8,N=128,device_name={device}.json").write_text(table_text(table))
    result = read_choices(sorted(tmp_path.iterdir()))
    # MI300X: 1, 16; MI325X: 1 (a copy), 16; A100: another chip
    assert choice_weights(result.data).tolist() == [0.5, 1, 0.5, 1, 1, 1]
    assert result.notes == copies_note(result.data) == (
        "1 of 6 choices repeat one of a GPU with the same chip; together they weigh once",)


def test_measurements_weigh_one_each(tmp_path: Path) -> None:
    from seqtune.data.journal.journal import Journal

    with Journal(write_journal(tmp_path / "journal.sqlite", RECORDS)) as journal:
        data = Dataset.from_journal(journal)
    assert choice_weights(data).tolist() == [1] * len(data)
    assert copies_note(data) == ()
