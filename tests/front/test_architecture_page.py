"""The page of the architecture: its picture can be read, its walks name what exists."""

from __future__ import annotations

import re
from itertools import combinations
from xml.etree import ElementTree

from docs.generate import architecture, import_arrows
from tests.support.paths import ROOT

Imports = dict[import_arrows.Module, set[import_arrows.Module]]

PAGE = ROOT / "docs" / "internals" / "architecture.md"


def test_rooms_do_not_overlap_and_names_fit_into_them() -> None:
    picture = ElementTree.fromstring(architecture.draw())
    names = [element for element in picture.iter() if element.get("class") == "name"]
    rooms = [[float(element.get(side, "nan")) for side in ("x", "y", "width", "height")]
             for element in picture.iter() if element.get("class") == "room"]
    assert len(names) == len(rooms) > 30
    for (left, top, width, height), (x, y, wide, high) in combinations(rooms, 2):
        assert left + width <= x or x + wide <= left or top + height <= y or y + high <= top
    for name, (left, _, width, _) in zip(names, rooms, strict=True):
        assert len(name.text or "") * architecture.LETTER <= width
        assert left >= architecture.MARGIN
        assert left + width <= architecture.WIDTH - architecture.MARGIN


def test_an_arrow_that_others_imply_is_left_out() -> None:
    first, second, third = ("floor", "a"), ("floor", "b"), ("floor", "c")
    imports: Imports = {first: {second, third}, second: {third}, third: set()}
    edges = architecture.reduced(imports)
    assert edges == [(first, second), (second, third)]
    assert architecture.arranged(imports, edges) == [[first], [second], [third]]


def test_an_arrow_past_a_column_has_a_place_there() -> None:
    first, second, third, aside = ("floor", "a"), ("floor", "b"), ("floor", "c"), ("floor", "d")
    imports: Imports = {first: {second}, second: {third}, third: set(), aside: {third}}
    columns = architecture.arranged(imports, architecture.reduced(imports))
    assert {len(column) for column in columns[:2]} == {2}
    assert architecture.Pass(aside, third, 1) in columns[1]


def test_every_file_of_the_walk_of_a_prediction_has_its_name() -> None:
    block = PAGE.read_text().partition("```text")[2].partition("```")[0]
    walk = re.findall(r"^[ │├└]*(\S.*?)  +(\w+/[\w/.]+)  ", block, re.MULTILINE)
    assert len(walk) == 16
    for name, path in walk[1:]:
        files = sorted((ROOT / path).glob("*.py")) if path.endswith("/") else [ROOT / path]
        assert any(re.search(rf"(def|class) {name.rpartition('.')[2]}\b", file.read_text()) for file in files), path


def test_every_user_of_the_comparison_is_listed() -> None:
    known = import_arrows.modules()
    target = ("tuner", "measuring", "comparison")
    users = {path.as_posix() for path in known.values() if target in import_arrows.imports(path, known)}
    users |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "benchmarks").rglob("*.py")
              if "seqtune.tuner.measuring.comparison import" in path.read_text()}
    text = PAGE.read_text()
    listed = set(re.findall(r"`([\w/]+\.py)`", text[text.index("Users of the module"):text.index("**An element type")]))
    assert listed == users
