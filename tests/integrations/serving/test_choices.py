"""Choices in files: copies among GPUs of one chip."""

from __future__ import annotations

from pathlib import Path

from seqtune.data.chosen_tasks import choice_weights, copies_note
from seqtune.integrations.serving.formats.choices import read_choices
from seqtune.integrations.serving.formats.table_file import table_text

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
