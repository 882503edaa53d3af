"""Kernel Tuner's caches become data sets."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from seqtune.data.dataset import Dataset
from seqtune.data.formats.foreign_records import ForeignRecord, ForeignRecords, to_dataset
from seqtune.data.formats.t4 import read_t4, results
from seqtune.data.record import Status
from seqtune.errors import FormatError
from seqtune.integrations.kernel_tuner.formats import read_cache
from seqtune.kernels.kernel import Configuration
from tests.support.recorded_files import (
    CONFIGURATIONS,
    VALUES,
    cache,
    milliseconds,
    write_cache,
)


def times(data: Dataset, device: str) -> dict[str, float]:
    """Seconds by configuration, of the device of that name."""
    part = data.on(data.device(device).key).rows
    return dict(zip(part["configuration"], part["seconds"].astype(float), strict=True))


def key(*values: int) -> str:
    return Configuration.of("", dict(zip(VALUES, values, strict=True))).key


@pytest.mark.parametrize("name", ["A100.json", "A100.json.gz"])
def test_a_cache_of_kernel_tuners_is_read_compressed_or_not(tmp_path: Path, name: str) -> None:
    found = read_cache(write_cache(tmp_path / name))
    assert (found.kernel, found.device, found.skipped) == ("toy", "The Fast One", {})
    data = to_dataset([found], "kernel-tuner")
    assert times(data, "recorded:The-Fast-One") == pytest.approx(
        {key(*one): milliseconds(*one[:3]) * 1e-3 for one in CONFIGURATIONS})
    assert set(data.rows["samples"]) == {2}
    assert data.rows["build_seconds"].to_numpy() == pytest.approx(5e-3)


@pytest.mark.parametrize(("content", "says"), [
    (b"", "not JSON"), (b"[1]", "no JSON object"), (b"{}", "no cache"), (b"[" * 100_000, "not JSON"),
    (b'{"cache": {"1": {"a": 1, "score": 3}}, "tune_params_keys": ["a"], "objective": "score"}', "no time"),
    (b'{"cache": {}, "tune_params_keys": [3]}', "no cache"),
    (b'{"cache": {}, "tune_params_keys": ["a"], "tune_params": {"a": [1]}}', "no configuration: nothing was measured"),
    (b'{"cache": {"1": {"a": null, "time": 3}}, "tune_params_keys": ["a"]}', "1 left out: a configuration whose a is"),
    (b'{"cache": {"1": {"b": 2, "time": 3}}, "tune_params_keys": ["a"]}', "1 left out: .* without its parameters"),
    (b'{"cache": {"1": {"a": 1, "time": "InvalidConfig"}}, "tune_params_keys": ["a"]}', "no time of its 1 .*1 failed"),
    (b'{"cache": {}, "tune_params_keys": ["a"], "tune_params": {"a": [[1, 2]]}}', "whose a is a list"),
    (b"\x1f\x8bnonsense", "gzip"), (gzip.compress(b"{}", mtime=0)[:-4], "cut short"), (b"\xff\xfe{}", "not JSON"),
])
def test_what_is_no_cache_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(FormatError, match=says) as caught:
        read_cache(tmp_path / "a.json")
    assert "a.json" in str(caught.value)


def test_rows_without_sense_are_counted_and_left_out(tmp_path: Path) -> None:
    content = cache()
    entries = iter(content["cache"].values())
    next(entries)["time"] = -1.0
    next(entries)["time"] = "SomethingNew"
    next(entries).pop("block")
    (tmp_path / "a.json").write_text(json.dumps(content))
    found = read_cache(tmp_path / "a.json")
    assert found.skipped == {
        "neither a time nor a failure that is known": 2, "a configuration without its parameters": 1}
    assert len(found.rows) == len(CONFIGURATIONS) - 3


def test_caches_of_several_devices_share_their_kernel_and_others_are_told_apart(tmp_path: Path) -> None:
    both = [read_cache(write_cache(tmp_path / f"{device}.json", device)) for device in ("fast", "odd")]
    data = to_dataset(both, "kernel-tuner")
    assert list(data.kernels) == ["recorded.toy"]
    assert {device.name for device in data.devices.values()} == {"recorded:The-Fast-One", "recorded:odd"}
    other = ForeignRecords("b.json", "toy", "x", {"width": [1]}, rows=[ForeignRecord((1,), Status.CORRECT, 1.0)])
    with pytest.raises(FormatError, match=r"b\.json declares another kernel toy"):
        to_dataset([*both, other], "kernel-tuner")


def test_what_two_files_tell_is_kept_once_whatever_the_order_of_their_parameters(tmp_path: Path) -> None:
    content = cache()
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps(content))
        content["tune_params_keys"].reverse()
    data = to_dataset([read_cache(tmp_path / name) for name in ("a.json", "b.json")], "kernel-tuner")
    assert times(data, "recorded:The-Fast-One").keys() == {key(*one) for one in CONFIGURATIONS}
    assert len(data.rows) == len(CONFIGURATIONS)


def test_numbers_and_booleans_of_a_cache_are_numbers_and_booleans_in_t4(tmp_path: Path) -> None:
    settings = [{"scale": scale, "flag": flag, "size": 16, "mode": "1"} for scale in (0.5, 1.0)
                for flag in (True, False)]
    content = cache()
    content |= {"tune_params_keys": list(settings[0]), "tune_params": {"scale": [1.0, 0.5], "flag": [True, False],
                "size": [16], "mode": ["1"]}, "cache": {str(one): {**one, "time": 1.0} for one in settings}}
    (tmp_path / "cache.json").write_text(json.dumps(content))
    data = to_dataset([read_cache(tmp_path / "cache.json")], "kernel-tuner")
    written = results(data.records(), next(iter(data.problems())), next(iter(data.devices.values())))
    assert json.dumps([one["configuration"] for one in written["results"]]) == json.dumps(settings)
    (tmp_path / "t4.json").write_text(json.dumps(written))
    again = to_dataset([read_t4(tmp_path / "t4.json")], "t4")
    assert sorted(again.rows["configuration"]) == sorted(data.rows["configuration"])
    assert set(again.rows["kernel_version"]) == {2}
