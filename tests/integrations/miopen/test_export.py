"""Export for MIOpen: the written files are those that MIOpen reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from seqtune.__main__ import main
from seqtune.data.dataset import Dataset
from seqtune.errors import ConfigurationError, SeqtuneError
from seqtune.integrations.miopen.formats.export import best_of, entries, user_text, write_udb
from seqtune.integrations.miopen.formats.importing import read_files, tables_of
from seqtune.integrations.miopen.kernels.gpus import device
from seqtune.integrations.miopen.kernels.solver import find_solver
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from tests.support.miopen_files import LABELS, MATRIX_LABELS, perf_db


def rows(data: Dataset) -> set[tuple[str, str, str]]:
    return set(data.rows[["problem", "kernel", "configuration"]].itertuples(index=False, name=None))


@pytest.mark.parametrize("form", ["parquet", "miopen-text", "miopen-udb"])
def test_an_interrupted_import_or_export_leaves_nothing_half_written(form: str, tmp_path: Path, monkeypatch: Any,
                                                                     capsys: Any) -> None:
    source, out = perf_db(tmp_path / "gfx906_60.db", LABELS), tmp_path / "labels.parquet"
    asked = ["import", "miopen", str(source), "--out", str(out)]
    if form != "parquet":
        assert main(asked) == 0
        asked, out = ["export", "--format", form, "--data", str(out), "--out", str(tmp_path / "out")], tmp_path / "out"
    before = sorted(tmp_path.iterdir())

    def interrupt(*given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", interrupt)
    assert main(asked) == 130
    assert sorted(tmp_path.iterdir()) == before
    monkeypatch.undo()
    assert main(asked) == 0
    assert out.exists()
    capsys.readouterr()


def test_what_is_exported_is_read_back(tmp_path: Path) -> None:
    for base, labels in (("gfx906_60", LABELS), ("gfx942130", MATRIX_LABELS)):
        data, _ = read_files([perf_db(tmp_path / f"{base}.db", labels)])
        place = next(iter(data.devices.values()))
        found = entries(best_of(data, place), place, tables_of(data))
        wanted = {(key, solver): params for key, some in labels.items() for solver, params in some.items()}
        wrote = {(one.key, one.solver): one.params for one in found}
        for ours, theirs in (("16,16,32,32,2,2,2,4,1", "16,16,32,32,2,2,2,4,2"),):  # stacks: MIOpen takes one anyway
            wanted = {place: ours if params == theirs else params for place, params in wanted.items()}
        assert wrote == wanted
        (tmp_path / f"{base}.HIP.udb.txt").write_text(user_text(found))
        write_udb(found, tmp_path / f"{base}_1.1.0.udb")
        for name in (f"{base}.HIP.udb.txt", f"{base}_1.1.0.udb"):
            assert rows(read_files([tmp_path / name])[0]) == rows(data)


def test_nothing_outside_of_its_space_is_written() -> None:
    gpu, fine = device("gfx906_60"), dict(find_solver("ConvAsm1x1U").kernel.default)
    problem = Problem.make("conv2d", n=32, c=64, h=28, w=28, k=256, r=1, s=1)
    assert len(entries([(problem, Configuration.of("miopen.ConvAsm1x1U", fine))], gpu)) == 1
    for wrong in ({**fine, "k_mult": 5}, {**fine, "c_mult": 32, "k_mult": 32}, {"k_mult": 4}, {**fine, "more": 1}):
        with pytest.raises(ConfigurationError):
            entries([(problem, Configuration.of("miopen.ConvAsm1x1U", wrong))], gpu)
    for other in (Problem.make("conv2d", n=32, c=64, h=28, w=28, k=256, r=3, s=3, activation="relu"),
                  Problem.make("gemm", m=1, n=1, k=1)):
        with pytest.raises(SeqtuneError):
            entries([(other, Configuration.of("miopen.ConvAsm1x1U", fine))], gpu)
