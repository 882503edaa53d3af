"""Every format of the table: round trips, and files that are damaged, empty, huge or another format's."""

from __future__ import annotations

import inspect
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from seqtune.__main__ import main
from seqtune.api import export, import_data, serve_files
from seqtune.data.dataset import Dataset
from seqtune.data.formats.table import FORMATS, described, find_files, format_of, names
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Status
from seqtune.errors import MisuseError, SeqtuneError
from seqtune.integrations.miopen.formats.importing import read_files
from seqtune.integrations.serving.formats.choices import read_choices
from seqtune.integrations.serving.formats.table_file import table_text
from seqtune.kernels.libraries.table import use
from tests.support.made_once import made_once
from tests.support.miopen_files import LABELS, perf_db, perf_text
from tests.support.recorded_files import write_autotune, write_cache, write_recorded
from tests.support.records import RECORDS, write_journal
from tests.support.winner_files import AITER, scale_library, write_gemlite, write_helion

SERVED = "E=8,N=128,device_name=NVIDIA_H200.json"  # a name that tells sizes, as those of vLLM and SGLang do
UNNAMED = {"triton": ("triton:h200",), "gemlite": ("triton:h100",),
           "helion-csv": ("triton:h200",)}  # the devices of files that do not name them
HUGE = 5 << 30  # bytes, of a file that takes no room on the disk: more than any format reads
WRITTEN = (*names("write"), *names("serve"))
ROUND_TRIPS = [name for name in names("read") if name in WRITTEN]


def _make(folder: Path) -> None:
    (samples := folder / "samples").mkdir(parents=True)
    records = [record for record in RECORDS if record.measurement.status is not Status.CRASH]  # T4 has no word for it
    with Journal(write_journal(folder / "journal.sqlite", records)) as journal:
        Dataset.from_journal(journal).write(folder / "trials.parquet")
    write_cache(samples / "cache.json")
    write_recorded(samples / "recorded")
    write_autotune(samples / "f.autotune.json")
    (samples / "tuned_gemm.csv").write_text(AITER)
    (named := folder / "a8w8_blockscale_tuned_gemm.csv").write_text(
        "".join(line for line in AITER.splitlines(keepends=True) if "bf16" not in line))
    import_data("aiter", [named], folder / "aiter.parquet")
    write_helion(samples / "scale.csv")
    (folder / "906_60.meta.jsonl").write_bytes((samples / "scale.meta.jsonl").read_bytes())  # beside `file_of`
    write_gemlite(samples / "h100.json")
    perf_db(samples / "gfx906_60.db", LABELS)
    read_files([perf_text(samples / "gfx906_60.udb.txt", LABELS)])[0].write(folder / "labels.parquet")
    (samples / "trials.parquet").write_bytes((folder / "trials.parquet").read_bytes())
    export(samples / "t4.json", "t4", journal=folder / "journal.sqlite")
    table = {tokens: {"BLOCK_SIZE_M": tokens, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1,
                      "num_warps": 4, "num_stages": 3} for tokens in (16, 64)}
    (samples / SERVED).write_text(table_text(table))
    read_choices([samples / SERVED]).data.write(folder / "choices.parquet")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a journal of trials, a data set of MIOpen's labels, and a folder `samples` of sound files."""
    use(scale_library())
    return copytree(made_once("formats", _make), tmp_path, dirs_exist_ok=True)


def sample_files(folder: Path) -> list[Path]:
    """The sound files of all formats, those in the folders of `samples` included."""
    return sorted(path for path in (folder / "samples").rglob("*") if path.is_file())


def source_of(name: str, folder: Path) -> tuple[dict[str, Any], Dataset]:
    """The option that names what the folder has for the format to write, and the expected data set."""
    if "journal" in {option.name for option in FORMATS[name].options}:
        return {"journal": folder / "journal.sqlite"}, Dataset.read(folder / "trials.parquet")
    data = folder / {"aiter": "aiter.parquet", "vllm": "choices.parquet", "sglang": "choices.parquet"}.get(
        name, "labels.parquet")
    return {"data": data}, Dataset.read(data)


def file_of(name: str, folder: Path) -> Path:
    """A file as the format names its own, for a GPU where the name tells one."""
    if format_of(name, "read").folder:
        return folder / SERVED
    return folder / format_of(name, "read").patterns[0].replace("*", "906_60")


def read(name: str, files: Sequence[Path]) -> Dataset:
    reader = format_of(name, "read").read
    assert reader is not None
    return reader(files, UNNAMED.get(name, ())).data


def refused(name: str, path: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line by which the command line refuses the file."""
    assert main(["import", name, str(path), "--out", str(out)]) == 2
    said = capsys.readouterr()
    assert not said.out
    assert said.err.startswith("seqtune: ")
    assert said.err.count("\n") == 1
    assert not out.exists()
    return said.err


@pytest.mark.parametrize("name", FORMATS)
def test_the_table_says_what_the_format_can(name: str) -> None:
    entry = FORMATS[name]
    form = format_of(name, entry.can.split()[0])
    assert (form.read is not None, form.write is not None) == (name in names("read"), name in WRITTEN)
    assert bool(form.patterns) == (form.read is not None)
    assert bool(entry.options) == (form.write is not None)
    for ability in ("read", "write", "serve"):
        assert (f"{name}: {entry.meaning}" in described(ability)) == (ability in entry.can)


def test_a_format_that_is_not_there_or_cannot_do_that_is_one_line() -> None:
    with pytest.raises(MisuseError, match="no format 'cudnn'; there are parquet, t4"):
        format_of("cudnn", "read")
    with pytest.raises(MisuseError, match="kernel-tuner cannot be written; there are parquet, t4"):
        format_of("kernel-tuner", "write")
    with pytest.raises(MisuseError, match="miopen-override cannot be read"):
        find_files("miopen-override", [])


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_what_was_written_is_read_again(name: str, folder: Path) -> None:
    source, expected = source_of(name, folder)
    path = folder / "out" if name in names("serve") else file_of(name, folder)
    written = serve_files(path, name, **source) if name in names("serve") else export(path, name, **source)
    report = written.report
    assert json.loads(json.dumps(report)) == report
    again = read(name, find_files(name, [path]))
    for column in ("configuration", "status"):
        assert sorted(again.rows[column]) == sorted(expected.rows[column])
    assert sorted(again.rows["seconds"]) == pytest.approx(sorted(expected.rows["seconds"]))


@pytest.mark.parametrize("name", WRITTEN)
def test_a_writer_takes_the_options_that_the_table_declares(name: str) -> None:
    form = format_of(name, "write" if name in names("write") else "serve")
    assert form.write is not None
    assert form.folder == ("force" in form.asks)
    inspect.signature(form.write).bind(Path("out"), **dict.fromkeys(
        [*(option.name for option in FORMATS[name].options), *form.asks]))


@pytest.mark.parametrize("ability", ["write", "serve"])
def test_an_option_has_one_kind_in_all_formats_of_a_command(ability: str) -> None:
    options = [option for name in names(ability) for option in FORMATS[name].options]
    assert len({replace(option, help="") for option in options}) == len({option.name for option in options})


@pytest.mark.parametrize("name", names("read"))
def test_an_empty_file_is_one_line(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = file_of(name, tmp_path)
    path.touch()
    assert path.name in refused(name, path, tmp_path / "out.parquet", capsys)


@pytest.mark.parametrize("name", names("read"))
def test_a_missing_file_and_an_empty_folder_are_one_line(
        name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no such file" in refused(name, tmp_path / "none", tmp_path / "out.parquet", capsys)
    (tmp_path / "empty").mkdir()
    assert f"no file of {name} in" in refused(name, tmp_path / "empty", tmp_path / "out.parquet", capsys)


@pytest.mark.parametrize("name", names("read"))
def test_a_huge_file_is_refused_before_it_is_read(
        name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = file_of(name, tmp_path)
    with path.open("wb") as file:
        file.truncate(HUGE)
    said = refused(name, path, tmp_path / "out.parquet", capsys)
    assert "MB" in said or "MiB" in said


@pytest.mark.parametrize("name", names("read"))
@pytest.mark.parametrize("content", [b"\0" * 99, b"[]", b"{}", b"3", b"\x1f\x8b\x08broken", b"BZh9broken", b"a=b:c",
                                     b"PAR1PAR1", b"SQLite format 3\0" + b"\1" * 99, "ä".encode("latin-1")])
def test_nonsense_is_one_line(name: str, content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = file_of(name, tmp_path)
    path.write_bytes(content)
    assert path.name in refused(name, path, tmp_path / "out.parquet", capsys)


@pytest.mark.parametrize("name", names("read"))
def test_every_format_that_is_read_has_a_sound_sample(name: str, folder: Path) -> None:
    """Without one, the next test would hand the reader nothing but damaged files of other formats."""
    path = file_of(name, folder)
    refusals = []
    for sample in sample_files(folder):
        path.write_bytes(sample.read_bytes())
        try:
            if len(read(name, [path]).rows):
                return
            refusals.append(f"{sample.name}: no rows")
        except SeqtuneError as error:
            refusals.append(f"{sample.name}: {error}")
    pytest.fail(f"no sample that {name} reads: write a sound file into `samples` in the fixture `folder` of "
                f"tests/contracts/test_formats.py\n" + "\n".join(refusals))


@pytest.mark.parametrize("name", names("read"))
def test_a_damaged_or_foreign_file_is_read_or_refused_in_one_line(name: str, folder: Path) -> None:
    generator = random.Random(0)
    for sample in sample_files(folder):
        content = sample.read_bytes()
        places = generator.sample(range(len(content)), min(6, len(content)))
        for number, place in enumerate([None, *places]):
            path = file_of(name, folder)
            damaged = bytearray(content)
            if place is not None:
                damaged[place] ^= 1 << generator.randrange(8)
            path.write_bytes(bytes(damaged[:place]) if place is not None and number % 2 else bytes(damaged))
            said = ""
            try:
                read(name, [path])
            except SeqtuneError as error:
                said = str(error)
            assert "\n" not in said
            assert len(said) < 1000
            path.unlink()
