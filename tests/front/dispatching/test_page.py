"""The page of a dispatch: it says all that is known, as text of one file that loads and runs nothing."""

from __future__ import annotations

import base64
import hashlib
import re
import xml.etree.ElementTree as ET
from html import unescape

import pytest

from seqtune.api.dispatching.page import page, reached
from tests.support.dispatched import dispatched, without_proof


def words(text: str) -> str:
    """What a reader sees."""
    return unescape(" ".join(re.sub(r"<style>.*?</style>|<[^>]+>", " ", text, flags=re.DOTALL).split()))


def test_the_page_shows_the_curve_the_kernels_the_rule_and_the_bound() -> None:
    seen = words(page(dispatched()))
    for part in ("2 kernels for gemm on llvm:0", "30 of 6 × 10 pairs", "2 ships", "2 0.951 0.942 0.923",
                 "rule 0.932, single 0.670, default 0.549", "1: own.gemm tile=8 , 4 shapes, 75.0% of the time",
                 "if m > 2: <b>1</b>", "the rule's first kernel: with 90 % confidence at least",
                 "gemm m=512 n=64 k=64 1.80 own.gemm tile=64", "gemm m=3 n=64 k=64 1.20 (expected)",
                 "race them there. gemm m=2 n=64 k=64", "dispatch.json", "a note"):
        assert part in seen, part


def test_the_page_loads_nothing_and_is_well_formed() -> None:
    for result in (dispatched(), dispatched("within"), without_proof()):
        text = page(result)
        style = re.search(r"<style>(.*)</style>", text, re.DOTALL)
        assert style is not None
        digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
        assert f"default-src 'none'; style-src 'sha256-{digest}'" in text
        assert not re.search(r"<script|https?://|style=", text)
        ET.fromstring(re.sub(r"<meta[^>]*>|<!DOCTYPE html>", "", text).replace("&times;", "x"))


def test_a_page_without_a_proof_says_so() -> None:
    seen = words(page(without_proof()))
    assert "Nothing: a bound needs at least 8 fresh shapes." in seen
    assert seen.count("None.") == 2


@pytest.mark.parametrize(("goal", "loss", "text"), [("mean", 0.0, "1.000"), ("worst", 0.1, "0.905"),
                                                    ("within", 0.1, "0.900")])
def test_a_loss_is_shown_as_what_it_leaves(goal: str, loss: float, text: str) -> None:
    assert reached(goal, loss) == text
