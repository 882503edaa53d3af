"""aiter's tuned products: CSV files and tables, kernels as parts of their names, and rows that are left out."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote

import pandas as pd
import pytest

from seqtune.api import serve_files
from seqtune.data.dataset import Dataset
from seqtune.data.formats.table import format_of
from seqtune.data.record import Status
from seqtune.errors import FormatError, MisuseError
from seqtune.integrations.aiter.kernels.name import name_of
from seqtune.integrations.aiter.kernels.table import settings_of
from seqtune.kernels.devices.accelerators import ACCELERATORS, ARCHITECTURES, described
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.operations.table import operation
from seqtune.kernels.space import SearchSpace
from seqtune.predictor.dispatch.dispatcher import Dispatcher
from seqtune.predictor.dispatch.domain import Domain
from seqtune.predictor.dispatch.facts import Fact
from seqtune.predictor.dispatch.rule import Rule, Tree
from tests.support.winner_files import AITER, LARGE, SMALL, SYMBOL, public_table


def read(*paths: Path) -> tuple[Dataset, dict[str, int]]:
    """The data set of files, and the numbers of rows of the first that were left out, by reason."""
    reader = format_of("aiter", "read").read
    assert reader is not None
    result = reader(paths, ())
    return result.data, result.reports[0]["skipped"]


def write(folder: Path, text: str, name: str = "all.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def names(space: SearchSpace) -> set[tuple[str, int]]:
    """The kernels of a space with their slices of k."""
    return {(name_of(dict(one.settings)), one.number("split_k")) for one in space}


def test_rows_become_choices_whose_settings_spell_the_kernels_name(tmp_path: Path) -> None:
    data, skipped = read(write(tmp_path, AITER))
    assert skipped == {}
    assert set(data.rows["status"]) == {Status.CHOSEN.value}
    assert {device.name for device in data.devices.values()} == {"aiter:mi300x", "aiter:mi355x"}
    settings = [json.loads(str(text)) for text in data.rows["configuration"]]
    assert [name_of(one) for one in settings] == [SMALL, LARGE, SMALL, SMALL, SYMBOL]
    assert settings[1]["tile_m"] == settings[1]["tile_n"] == settings[1]["tile_k"] == 128
    assert [one["split_k"] for one in settings] == [0, 0, 2, 0, 4]
    problems = [data.known_problems[key].brief() for key in data.rows["problem"]]
    assert problems[0] == ("quantized_gemm m=16 n=1280 k=8192 dtype=fp8 weight_dtype=fp8 scale_n=128 scale_k=128")
    assert problems[4] == "quantized_gemm m=16 n=384 k=7168 dtype=bf16 weight_dtype=bf16"


def test_only_the_gpus_of_amd_are_described() -> None:
    for name, entry in ACCELERATORS.items():
        assert (described("aiter", name) is None) == ARCHITECTURES[entry.architecture].name.startswith("sm_")


def test_the_space_of_an_architecture_has_the_kernels_that_were_named_for_it(tmp_path: Path) -> None:
    data, _ = read(write(tmp_path, AITER))
    data.write(tmp_path / "data.parquet")
    data = Dataset.read(tmp_path / "data.parquet")
    kernel = data.kernels["aiter.a8w8_blockscale"]
    devices = {device.name: device for device in data.devices.values()}
    problem = next(problem for problem in data.known_problems.values() if problem["m"] == 4096)
    mi300x = SearchSpace(kernel, problem, devices["aiter:mi300x"])
    assert names(mi300x) == {(name, split) for name in (SMALL, LARGE) for split in (0, 2)}
    assert name_of(dict(mi300x.default.settings)) == SMALL
    assert names(SearchSpace(kernel, problem, devices["aiter:mi355x"])) == {(SMALL, 0)}
    whole = data.kernels["aiter.bf16"]
    assert (why := whole.why_not(problem, devices["aiter:mi355x"])) is not None
    assert "dtype=bf16" in why
    product = next(problem for problem in data.known_problems.values() if problem["dtype"] == "bf16")
    assert (why := whole.why_not(product, devices["aiter:mi300x"])) is not None
    assert "no kernels are known for this architecture" in why


def test_the_kind_of_product_is_told_by_the_name_of_the_file(tmp_path: Path) -> None:
    header = "gfx,cu_num,M,N,K,q_dtype_w,libtype,splitK,us,kernelName\n"
    row = f"gfx942,80,16,384,7168,torch.int8,ck,0,1.0,{SMALL}\n"
    data, _ = read(write(tmp_path, header + row, "glm5_a8w8_bpreshuffle_tuned_gemm.csv"))
    problem, = data.known_problems.values()
    assert problem.brief() == (
        "quantized_gemm m=16 n=384 k=7168 dtype=int8 weight_dtype=int8 scale_n=1 scale_k=7168 shuffled=yes")
    assert [device.name for device in data.devices.values()] == ["aiter:mi308x"]
    with pytest.raises(FormatError, match="tells no kind of product"):
        read(write(tmp_path, header + row, "mine.csv"))


def test_rows_that_are_not_understood_are_counted_and_files_are_refused(tmp_path: Path) -> None:
    header, first, *_ = AITER.splitlines()
    rows = [first, first.replace(",304,", ",305,"), first.replace(",16,", ",-1,"), first.replace(SMALL, "a b"),
            first.replace(",16,", ",2000000,"), first.replace("a8w8_blockscale_tuned", "untuned")]
    _, skipped = read(write(tmp_path, "\n".join([header, *rows]) + "\n"))
    assert list(skipped) == sorted([
        "no facts are known here of a gfx942 with 305 compute units", "m is not a whole number",
        "'a b' is not the name of a kernel of aiter", "m=2000000 is outside 1..1048576",
        "the file's name tells no kind of product (a8w8_blockscale_tuned_gemm.csv)"])
    for text, reason in ((header.replace("splitK", "slices"), "0 columns 'split_k'"),
                         (header.replace("us,", "splitk,"), "2 columns 'split_k'"), (header, "holds no tuned product"),
                         (f"{header}\n1,2\n", "line 2 has 2 values for 14 columns"),
                         (f'{header}\n"', "not a CSV file")):
        with pytest.raises(FormatError, match=reason):
            read(write(tmp_path, text))


def dispatch_of(data: Dataset, folder: Path) -> Path:
    """The file of a dispatch for MI300X that chooses SMALL up to 64 rows, and LARGE above."""
    kernel, = (kernel for kernel in data.kernels.values() if kernel.name == "aiter.a8w8_blockscale")
    gpu = next(device for device in data.devices.values() if device.name == "aiter:mi300x")
    rule = Rule(2, (Fact("m", Expression("m")),), ((0, 64),), (Tree((0,), ((0, 1), (1, 0))),), 1)
    domain = Domain.parse(operation("quantized_gemm"), [
        "m=1..8192", "n=1280", "k=8192", "dtype=fp8", "weight_dtype=fp8", "scale_n=128", "scale_k=128",
        "out_dtype=unknown"])
    members = [Configuration.of(kernel.name, settings_of(name, 0)) for name in (SMALL, LARGE)]
    Dispatcher.of(members, {kernel.name: kernel}, gpu, rule, domain).save(folder / "dispatch.json")
    return folder / "dispatch.json"


def test_a_dispatch_fills_the_shapes_that_the_data_lack_and_aiters_reader_finds_the_same_choices(
        tmp_path: Path) -> None:
    data, _ = read(write(tmp_path, AITER))
    data.write(tmp_path / "data.parquet")
    dispatched = dispatch_of(data, tmp_path)
    untuned = write(tmp_path, "M,N,K\n8,1280,8192\n32,1280,8192\n128,1280,8192\n9000,1280,8192\n",
                    "a8w8_blockscale_untuned_gemm.csv")
    report = serve_files(tmp_path / "out", "aiter", data=tmp_path / "data.parquet", checkpoint=dispatched,
                         shapes=[str(untuned)]).report
    written = tmp_path / "out" / "a8w8_blockscale_tuned_gemm.csv"
    assert written.read_text() == (  # as aiter's `get_CKGEMM_config` and `build_tune_dict` of September 2026 read it
        "gfx,cu_num,M,N,K,libtype,splitK,kernelName\n"
        f"gfx942,304,8,1280,8192,ck,0,{SMALL}\n"
        f"gfx942,304,32,1280,8192,ck,2,{SMALL}\n"  # what the data chose
        f"gfx942,304,128,1280,8192,ck,0,{LARGE}\n")
    assert report["left out"] == [{"rows": 1, "reason": "the shape is outside of the dispatch's domain, "
                                     "or none of its kernels is proved valid there"}]
    assert report["environment"] == f"AITER_CONFIG_GEMM_A8W8_BLOCKSCALE={quote(str(written))}"
    again, skipped = read(written)
    assert (chosen(again), skipped) == ({8: SMALL, 32: SMALL, 128: LARGE}, {})
    report = serve_files(tmp_path / "data alone", "aiter", data=tmp_path / "data.parquet", shapes=[str(untuned)]).report
    assert report["left out"] == [{"rows": 3, "reason": "the data have no choice of aiter's for the shape"}]
    with pytest.raises(MisuseError, match="out=''; it must be a path"):
        serve_files("", "aiter", data=tmp_path / "data.parquet")


def test_all_choices_of_the_data_are_written_that_aiter_finds_by_name(tmp_path: Path) -> None:
    data, _ = read(write(tmp_path, AITER))
    data.write(tmp_path / "data.parquet")
    report = serve_files(tmp_path / "out", "aiter", data=tmp_path / "data.parquet").report
    assert report["files"] == [{"file": "a8w8_blockscale_tuned_gemm.csv", "rows": 4}]
    assert report["left out"] == [{"rows": 1, "reason": "aiter does not find kernels of bf16 by name"}]
    with pytest.raises(MisuseError, match="exists; --force overwrites"):
        serve_files(tmp_path / "out", "aiter", data=tmp_path / "data.parquet")
    for dispatched in (None, dispatch_of(data, tmp_path)):
        with pytest.raises(MisuseError, match=r"name a data set of aiter's choices \(--data\), or a dispatch"):
            serve_files(tmp_path / "none", "aiter", checkpoint=dispatched)


PRODUCT = "gfx,cu_num,M,N,K,libtype,kernelId,splitK,us,kernelName,tflops,bw,errRatio\n"
SLOW, FAST = "a8w8_slow", "a8w8_fast"


def winners(time: object, name: str, m: int = 64) -> str:
    """A row of a product that this kernel won in this time."""
    return f"gfx950,256,{m},512,4096,asm,7,0,{time},{name},1,1,0.0\n"


def chosen(data: Dataset) -> dict[int, str]:
    """The name of the kernel of each product, by its rows."""
    return {int(str(data.known_problems[str(row.problem)]["m"])): name_of(json.loads(str(row.configuration)))
            for row in data.rows.itertuples()}


@pytest.mark.parametrize("fast_first", [True, False])
@pytest.mark.parametrize("files", [1, 2])
def test_of_several_winners_of_a_product_the_fastest_counts(fast_first: bool, files: int, tmp_path: Path) -> None:
    rows = [winners(20.0, SLOW), winners("1e1", FAST)][::-1 if fast_first else 1]
    parts = [rows] if files == 1 else [[row] for row in rows]
    paths = [write(tmp_path, PRODUCT + winners(30.0, SLOW, 128 + number) + "".join(part),
                   f"{number}_a8w8_blockscale_tuned_gemm.csv") for number, part in enumerate(parts)]
    reader = format_of("aiter", "read").read
    assert reader is not None
    result = reader(paths, ())
    assert chosen(result.data) == {64: FAST, **{128 + number: SLOW for number in range(files)}}
    assert len(result.data) == 1 + files
    counts = [report["skipped"] for report in result.reports]
    assert sum(sum(each.values()) for each in counts) == 1
    assert counts[0 if files == 1 or not fast_first else 1] == {
        "another row of the same product is as fast, or faster": 1}


def test_every_public_row_is_in_the_space_of_its_architecture() -> None:
    path = public_table("aiter.parquet")
    data, skipped = read(path)
    assert set(skipped) <= {"another row of the same product is as fast, or faster", "a row without a time"}
    assert {name_of(json.loads(text)) for text in data.rows["configuration"].unique()} == set(
        pd.read_parquet(path, columns=["kernel_name"])["kernel_name"])
