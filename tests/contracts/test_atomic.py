"""Every writer replaces a file whole or not at all: where the renaming fails, the old content stays."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from seqtune.api.exchanging import export
from seqtune.data.dataset import Dataset
from seqtune.data.formats.recorded_spaces import read_recorded
from seqtune.errors import SeqtuneError
from seqtune.kernels.devices.device import Device
from seqtune.networks.selection.choices import write_choices
from tests.support.recorded_files import write_recorded

DEVICE = Device("llvm:avx2:1", "llvm", "x86", "avx2")


def t4(data: Dataset, out: Path) -> Callable[[], object]:
    problem = data.problems()[0]
    source = out.parent.parent / "data.parquet"
    return lambda: export(out, "t4", data=source, problem=problem, device=next(iter(data.devices.values())).name,
                             force=True)


WRITERS: dict[str, Callable[[Dataset, Path], Callable[[], object]]] = {
    "data set": lambda data, out: lambda: data.write(out),
    "t4": t4,
    "saved choices": lambda data, out: lambda: write_choices(out, DEVICE, []),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_failed_writer_leaves_the_old_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = read_recorded(write_recorded(tmp_path / "recorded"))
    data.write(tmp_path / "data.parquet")
    out = tmp_path / "out" / "file"
    out.parent.mkdir()
    out.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    write = WRITERS[name](data, out)
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        with pytest.raises(SeqtuneError, match=r"^cannot write .*file: No space left on device$"):
            write()
    assert out.read_text() == "old"
    assert os.listdir(out.parent) == ["file"]
    write()
    assert out.read_bytes() != b"old"
