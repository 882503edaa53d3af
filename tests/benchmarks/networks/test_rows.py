"""Tests of the table of networks: its arithmetic, and what stands where something is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.networks.contest import ContestOutcome
from benchmarks.networks.page import quote
from benchmarks.networks.rows import MEAN, row_of, summaries


def outcome(model: str = "VGG-16", **milliseconds: float) -> ContestOutcome:
    """Make an outcome of three equal rounds."""
    return ContestOutcome(model, "fp32", 2, {name: 3 * [value / 1e3] for name, value in milliseconds.items()},
                   dict.fromkeys(milliseconds, 1e-6), dict.fromkeys(milliseconds, 2.5), {}, {"aten::cat": 2})


def test_ratios_are_the_times_of_peers_over_ours() -> None:
    row = row_of(outcome(seqtune=2.0, unverified=2.5, eager=8.0, compile=4.0, openvino=1.0))
    assert row["ms"] == pytest.approx(2.0)
    assert [row["vs_eager"], row["vs_compile"], row["vs_openvino"]] == pytest.approx([4.0, 2.0, 0.5])
    assert (row["best_peer"], row["vs_best"], row["vs_unverified"]) == ("openvino", pytest.approx(0.5),
                                                                        pytest.approx(1.25))
    assert row["vs_zentorch"] is None
    assert (row["pytorch_operations_left"], row["error"], row["seconds_to_ready"]) == (2, 1e-6, 2.5)


def test_means_are_geometric_and_name_the_networks_below_the_floor() -> None:
    rows = [row_of(outcome("VGG-16", seqtune=1.0, eager=8.0, openvino=4.0)),
            row_of(outcome("ViT-B/16", seqtune=2.0, eager=4.0, openvino=1.0))]
    mean, = summaries(rows)
    assert (mean["model"], mean["networks"], mean["below"]) == (MEAN, 2, ["ViT-B/16"])
    assert mean["vs_eager"] == pytest.approx(4.0)
    assert mean["vs_best"] == pytest.approx(2.0**0.5)
    assert mean["least"] == pytest.approx(0.5)
    assert mean["vs_compile"] is None


def test_what_is_quoted_is_the_speed_of_predicted_networks() -> None:
    rows = [row_of(outcome("VGG-16", seqtune=1.0, unverified=2.0, openvino=4.0)),
            row_of(outcome("ViT-B/16", seqtune=1.0, unverified=1.0, openvino=0.5)),
            row_of(replace(outcome(seqtune=1.0, unverified=1.0, openvino=9.0), threads=1)),
            row_of(outcome("BERT-base", eager=8.0))]
    text = quote({"rows": [*rows, *summaries(rows)], "machine": {"cpu": "toy"}}, "folder")
    assert text.startswith("By prediction alone, 2 networks ran in fp32 on 2 threads of toy at **1.00** times")
    assert "least 0.50), ready in 2 to 2 s" in text
    assert text.endswith("(folder/networks.md).")
