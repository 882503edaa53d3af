"""The list of promises (`docs/internals/promises.md`): every test that it names exists, and every contract is in it."""

from __future__ import annotations

import re

import pytest

from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "internals" / "promises.md").read_text()
ROWS = [line for line in PAGE.splitlines() if re.match(r"\| (?!promise|:--)", line)]
NAMED = sorted(set(re.findall(r"`(tests/[^`]+)`", "\n".join(ROWS))))


@pytest.mark.parametrize("row", ROWS)
def test_a_promise_names_a_test(row: str) -> None:
    promise, tests = row.strip("| ").split(" | ")
    assert promise.endswith(".")
    assert re.fullmatch(r"`tests/[\w/.:]+`(, `tests/[\w/.:]+`)*", tests)


@pytest.mark.parametrize("name", NAMED)
def test_every_test_that_is_named_exists(name: str) -> None:
    path, _, test = name.partition("::")
    text = (ROOT / path).read_text()
    assert re.search(rf"^( {{4}})?def {test or 'test_'}", text, re.MULTILINE)


def test_every_contract_test_is_in_the_list() -> None:
    files = {f"tests/contracts/{path.name}" for path in (ROOT / "tests" / "contracts").glob("test_*.py")}
    assert files - {name.partition("::")[0] for name in NAMED} == {"tests/contracts/test_promises.py"}
