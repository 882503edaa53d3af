"""A report in a real browser: every section is drawn, nothing fails, and a choice draws it again."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from html import escape
from pathlib import Path

import pytest

import seqtune
from seqtune.kernels.problem import Problem
from seqtune.reporting.content import PageLimits
from seqtune.reporting.measurements import read
from seqtune.reporting.report import write_report
from tests.support.report_content import HOSTILE, PROBLEM, configurations, record, write_journal

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
OTHER = Problem.make("gemm", m=48, n=32, k=16)
SECTIONS = ("What was measured where", "A problem", "Landscape of two parameters", "Importance of parameters",
            "Failures", "Predicted against measured", "What was pruned, and why")
CHOOSE = """<script>
const choose = () => {
  const search = document.querySelector("input[type=search]");
  search.value = "M=48 gemm";
  search.dispatchEvent(new Event("input"));
  const across = [...document.querySelectorAll("#landscape select")][1];
  across.value = across.options[across.options.length - 1].value;
  across.dispatchEvent(new Event("change"));
};
if (document.documentElement.dataset.drawn) choose();
else new MutationObserver((_, observer) => { observer.disconnect(); choose(); })
  .observe(document.documentElement, { attributes: true, attributeFilter: ["data-drawn"] });
</script>"""

pytestmark = pytest.mark.skipif(BROWSER is None, reason=f"no Chromium: none of {', '.join(BROWSERS)} is found")


def drawn(page: Path, folder: Path) -> str:
    """The document after the page's program has run. Fails if the browser's console has a line."""
    assert BROWSER is not None
    answer = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={folder}",
         "--enable-logging=stderr", "--v=0", "--virtual-time-budget=3000", "--window-size=1000,800", "--dump-dom",
         page.as_uri()], capture_output=True, text=True, timeout=120, env={**os.environ, "HOME": str(folder)})
    assert [line for line in answer.stderr.splitlines() if "CONSOLE" in line] == []
    return answer.stdout


@pytest.fixture
def page(tmp_path: Path) -> Path:
    *ran, failed = configurations(41)
    records = [record(each, 1e-3 * (1 + number % 7), float(number)) for number, each in enumerate(ran)]
    records += [record(each, 1e-4 * (2 + number), 50.0 + number, problem=OTHER)
                for number, each in enumerate(configurations(20, OTHER))]
    records.append(record(failed, None, 99.0, message=HOSTILE))
    journal = write_journal(tmp_path / "j.sqlite", records)
    return seqtune.report(journal, tmp_path / "r.html", checkpoint="default").out


def test_a_browser_draws_every_section_without_an_error(page: Path, tmp_path: Path) -> None:
    document = drawn(page, tmp_path / "user")
    assert re.search(r'data-drawn="\d+"', document)
    assert re.findall(r"<h2>([^<]*)</h2>", document) == list(SECTIONS)
    assert "61 records of 2 problems on 1 device, 1 without success" in document
    sections = dict(re.findall(r'<section id="(\w+)">(.*?)</section>', document, re.DOTALL))
    assert f"{PROBLEM.key} on llvm:avx2:2" in sections["choice"]
    assert "best so far" in sections["choice"]
    assert "safe default" in sections["choice"]
    assert "is number" in sections["choice"]
    assert len(re.findall(r"background: rgb", sections["landscape"])) > 10
    assert sections["importance"].count("<svg") >= 2
    assert escape(HOSTILE, quote=False) in sections["failures"]
    assert "checkpoint default was asked for 2 problems" in sections["forecasts"]
    assert "combinations" in sections["pruning"]
    assert "<img" not in document


def test_a_page_without_records_says_so(tmp_path: Path) -> None:
    records = [record(each, 1e-3, float(number)) for number, each in enumerate(configurations(9))]
    measurements = read(write_journal(tmp_path / "j.sqlite", records))
    path = write_report(measurements, "j.sqlite", tmp_path / "r.html", PageLimits(bytes=1)).out
    document = drawn(path, tmp_path / "user")
    assert "The records of 1 of 1 pairs of problem and device, those with the fewest, are left out" in document
    assert "The records of this problem are left out" in document
    assert re.search(r"Least time: 1 ms, llvm\.gemm \w+=", document)
    assert "There are no times of this problem in the page." in document
    assert "was written without a checkpoint" in document


def test_a_choice_draws_the_problem_and_the_landscape_again(page: Path, tmp_path: Path) -> None:
    before = page.read_text()
    open_page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", before).replace("</body>", CHOOSE)
    assert open_page != before
    (tmp_path / "open.html").write_text(open_page)
    document = drawn(tmp_path / "open.html", tmp_path / "user")
    assert f"<h3>{OTHER.key} on llvm:avx2:2</h3>" in document
    assert f"<h3>{PROBLEM.key} on" not in document
    across = re.search(r"in per cent, (\w+) across", document)
    assert across
    assert across[1] == configurations(1)[0].settings[-1][0]


def test_a_page_that_was_changed_does_not_run(page: Path, tmp_path: Path) -> None:
    (tmp_path / "changed.html").write_text(page.read_text().replace('"use strict";', '"use strict"; 1;'))
    with pytest.raises(AssertionError, match="CONSOLE"):
        drawn(tmp_path / "changed.html", tmp_path / "user")
