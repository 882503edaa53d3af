"""Dispatchers: their answers, what they prove, and their JSON file."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.prediction.dispatch.validity import corners, counted
from seqtune.errors import FormatError, MisuseError
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Configuration, Kernel, Parameter
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import families, kernel
from seqtune.predictor.dispatch.dispatcher import Choice, Dispatcher
from seqtune.predictor.dispatch.domain import Domain
from seqtune.predictor.dispatch.facts import Fact, fact_columns
from seqtune.predictor.dispatch.python_file import python_file
from seqtune.predictor.dispatch.rule import Rule
from tests.support.devices import DEVICES
from tests.support.dispatchers import by_size, changed
from tests.support.guarded_members import random_dispatcher

CPU = DEVICES["llvm"]
TOY = Kernel.of(name="toy.tiles", operation="gemm", meaning="", parameters=(Parameter("tile", (1, 2, 8, 64)),),
                constraints=(("tile <= n", "a tile has n columns"), ("tile != 2 or n < 9", "narrow")),
                default={"tile": 1}, backends=("llvm",))


def tiles(sizes: list[int], *domain: str, facts: tuple[Fact, ...] = ()) -> Dispatcher:
    """A dispatcher of tiles that prefers the first valid one."""
    members = [Configuration.of("toy.tiles", {"tile": size}) for size in sizes]
    return Dispatcher.of(members, {"toy.tiles": TOY}, CPU, Rule(len(sizes), facts),
                         Domain.parse(operation("gemm"), domain or ["m=1..64", "n=1..256", "k=1..64"]))


def gemm(n: int) -> Problem:
    return Problem.make("gemm", m=4, n=n, k=4)


def test_the_first_valid_member_in_the_rules_order_answers_in_the_domain() -> None:
    dispatcher = tiles([64, 8, 1])
    assert (dispatcher.fallback, dispatcher.gap) == (2, "")
    assert dispatcher.choose(gemm(100)) == Choice(0, 1, True, True)
    assert dispatcher.choose(gemm(20)) == Choice(1, 2, True, True)
    assert dispatcher.choose(gemm(7)) == Choice(2, None, True, True)
    assert dispatcher.choose(gemm(1000)) == Choice(None, None, False, False)
    with pytest.raises(MisuseError, match="serves gemm, not conv2d"):
        dispatcher.choose(Problem.make("conv2d", c=1, h=1, w=1, k=1, r=1, s=1))


def test_without_a_fallback_it_says_for_which_shapes_nothing_is_valid() -> None:
    dispatcher = tiles([64, 8])
    assert dispatcher.fallback is None
    assert dispatcher.gap == "shapes for which none of these holds: (n >= 64); (n >= 8)"
    assert dispatcher.choose(gemm(7)) == Choice(None, None, False, True)
    stricter = replace(dispatcher.guards[0], conditions=(*dispatcher.guards[1].conditions, Expression("m >= 2")))
    assert replace(dispatcher, guards=(stricter, dispatcher.guards[1])).gap == \
        "shapes for which none of these holds: (n >= 8)"
    together = tiles([2, 8], "m=1", "n=2..256", "k=1")  # none is valid for all, together they are
    assert (together.fallback, together.gap) == (None, "")


def test_without_a_kernel_nothing_is_promised() -> None:
    dispatcher = Dispatcher.of([Configuration.of("toy.tiles", {"tile": 64})], {}, None, Rule(1),
                               Domain.parse(operation("gemm"), ["m=4", "n=1..9", "k=4"]))
    assert (dispatcher.promised, dispatcher.fallback, dispatcher.gap) == (False, None, "")
    assert dispatcher.choose(gemm(5)).member == 0


@pytest.mark.parametrize("name", ["gemm", "conv2d"])
def test_no_answer_is_invalid_also_not_of_a_file_that_is_loaded(name: str, tmp_path: Path) -> None:
    texts = {"gemm": ["m=1..4096", "n=1..4096", "k=1..4096", "trans_b=no,yes", "m % 2 == 0"],
             "conv2d": ["c=1..256", "h=1..64", "k=1..256", "r=1..5", "pad=0..2", "groups=1..256", "layout=NCHW,NHWC"]}
    domain, kernels = Domain.parse(operation(name), texts[name]), families("llvm", name)
    saved = random_dispatcher(domain, kernels, CPU, members=8)
    saved.save(tmp_path / "dispatch.json")
    dispatcher = Dispatcher.load(tmp_path / "dispatch.json")
    assert (dispatcher.to_json(), dispatcher.guards) == (saved.to_json(), saved.guards)
    for shapes in (domain.sample(20_000, np.random.default_rng(3)), corners(domain, 2000)):
        _, invalid, missed, none = counted(dispatcher, {family.name: family for family in kernels}, shapes)
        assert (invalid, missed) == (0, 0)
        assert none < len(shapes)


CHANGES: list[tuple[list[str | int], Any, str]] = [
    (["format"], "other", "it is no seqtune dispatcher"), (["version"], 2, "update seqtune"),
    (["operation"], "gone", "no operation 'gone'"), (["operation"], "conv2d", "another declaration of conv2d"),
    (["derived"], [["flop", "1"]], "another declaration"), (["members"], [], "members: List should have at least 1"),
    (["members", 0, "settings"], {"tile": None}, "members.0.settings.tile"),
    (["members", 0, "settings"], {"tile": 1e400}, "'tile' is not a word or a number"),
    (["guards", 0, "conditions"], ["m >="], "cannot read the expression"),
    (["guards", 0, "conditions"], ["q > 1"], "reads 'q'"), (["guards", 0, "reads"], ["q"], "reads 'q'"),
    (["guards"], [{"conditions": []}], "3 members and 1 guards"), (["device"], None, "which need a device"),
    (["device"], {"name": "x"}, "a device needs backend"), (["domain"], ["m=1..9"], "lack n, k"),
    (["domain"], ["m=1..9"] * 300, "at most 200"), (["more"], 1, "more: Extra inputs"), (["rule"], {}, "rule"),
    (["rule", "members"], 5, "rule has 5"), (["rule", "members"], 0, "inconsistent"),
    (["rule", "sure"], -1, "inconsistent"), (["rule", "sure"], 1 << 63, "rule.sure: "),
    (["rule", "facts"], [["m"]], "rule.facts"), (["rule", "tests"], [[9, 1]], "inconsistent"),
    (["rule", "trees"], {}, "rule.trees"), (["rule", "trees"], [{"tests": [], "leaves": [[9, 0, 0]]}], "inconsistent"),
    (["rule", "trees"], [{"tests": [7], "leaves": [[0] * 3] * 2}], "inconsistent"),
    (["rule", "trees"], [{"tests": [0], "leaves": [[0] * 3]}], "inconsistent")]
CHANGES += [(["rule", "facts"], [{"name": "x", "expression": text}], "the fact ") for text in (
    "dtype", "m if m > 4 else dtype", "{8: 1}[m]", "dtype < 3", "2 ** m", "(m, n)", "m >> -1", "-trans_a")]


@pytest.mark.parametrize(("path", "value", "reason"), CHANGES, ids=lambda value: str(value)[:30])
def test_a_changed_file_gets_one_line(path: list[str | int], value: Any, reason: str, tmp_path: Path) -> None:
    content = copy.deepcopy(tiles([64, 8, 1]).to_json())
    part: Any = content
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    (tmp_path / "d.json").write_text(json.dumps(content))
    with pytest.raises(FormatError) as caught:
        Dispatcher.load(tmp_path / "d.json")
    assert reason in str(caught.value)
    assert "d.json" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"format": ' * 100_000, "\0" * 10])
def test_what_is_no_dispatcher_gets_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "d.json").write_text(text)
    with pytest.raises(FormatError) as caught:
        Dispatcher.load(tmp_path / "d.json")
    assert "\n" not in str(caught.value)


INFINITE = " * ".join(["4e18"] * 17)


@pytest.mark.parametrize("text", [f"{INFINITE} * m - {INFINITE} * n", "m / n", "m // (m - 4)", "trans_a == 'no'",
                                  "m ^ -n", "m % (n - m)", " * ".join(["m"] * 40)])
def test_a_fact_is_a_number_for_every_shape_in_numpy_and_in_the_python_file(text: str) -> None:
    facts = (Fact("x", Expression(text)),)
    dispatcher, names = tiles([1], "m=1..64", "n=1..64", "k=1", facts=facts), dict[str, Any]()
    exec(python_file(Dispatcher.from_json(dispatcher.to_json())), names)
    names["_choice"] = lambda inside, facts, valid: list(map(names["_fact"], facts))
    columns = dispatcher.domain.sample(200, np.random.default_rng(0))
    shapes = zip(columns.values["m"].tolist(), columns.values["n"].tolist(), strict=True)
    assert [names["choose"](m=m, n=n) for m, n in shapes] == fact_columns(facts, columns).tolist()


@pytest.mark.parametrize("change", [
    {"conditions": []}, {"conditions": ["m > 3"]}, {"reads": []}, {"settings": {"q": 1}}, {"settings": {
        **dict(kernel("llvm.gemm").default), "vector": 7}}], ids=str)
def test_a_member_with_other_conditions_than_its_kernel_is_refused(change: dict[str, Any]) -> None:
    members = [changed("llvm.gemm", tile_m=4)] * 2
    content = by_size("m", 64, members, CPU, "m=8..512", "n=256", "k=256").to_json()
    Dispatcher.from_json(content)
    content["members" if "settings" in change else "guards"][0].update(change)
    with pytest.raises(FormatError, match=r"llvm\.gemm"):
        Dispatcher.from_json(content)
    content["members"][0]["version"] += 1  # of another version, nothing is known here
    Dispatcher.from_json(content)
