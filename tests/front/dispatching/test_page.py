"""The report of a dispatch as a page: it says all that is known, as text of one file that loads and runs nothing."""

from __future__ import annotations

import base64
import hashlib
import re
import xml.etree.ElementTree as ET
from html import unescape

from seqtune.api.dispatching.page import page
from tests.support.dispatched import dispatched, without_proof


def words(text: str) -> str:
    """What a reader sees."""
    return unescape(" ".join(re.sub(r"<style>.*?</style>|<[^>]+>", " ", text, flags=re.DOTALL).split()))


def test_the_page_shows_the_curve_the_kernels_the_rule_and_the_bound() -> None:
    seen = words(page(dispatched()))
    for part in ("2 kernels for gemm on llvm:0", "30 of 6 x 10 pairs", "2 0.951 0.923 0.942 <- these ship",
                 "rule 0.932, single 0.670, default 0.549", "1 own.gemm tile=8 75% 4 m=3 n=64 k=64; m=64",
                 "if m > 2: <b>1</b>", "the rule's first kernel: with 90 % confidence at least",
                 "gemm m=512 n=64 k=64 1.80 own.gemm tile=64", "gemm m=3 n=64 k=64 1.20 (expected)",
                 "race its first two there 1: m=2 n=64 k=64", "dispatch.json", "a note"):
        assert part in seen, part
    assert "share of shapes that are fast enough" in words(page(dispatched("within"))).lower()
    assert "Promise for other shapes none" in words(page(without_proof()))


def test_the_page_loads_nothing_and_is_well_formed() -> None:
    text = page(dispatched())
    style = re.search(r"<style>(.*)</style>", text, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'" in text
    assert not re.search(r"<script|https?://|style=", text)
    ET.fromstring(re.sub(r"<meta[^>]*>|<!DOCTYPE html>", "", text))
