"""Dispatchers: their answers, what they prove, and their JSON file."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqtune.errors import FormatError, MisuseError
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Configuration, Kernel, Parameter
from seqtune.kernels.membership import Membership
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns
from seqtune.kernels.registry import families, kernel
from seqtune.predictor.dispatch.dispatcher import Choice, Dispatcher
from seqtune.predictor.dispatch.domain import Domain
from seqtune.predictor.dispatch.facts import Fact, fact_columns
from seqtune.predictor.dispatch.python_file import python_file
from seqtune.predictor.dispatch.rule import Rule
from tests.support.devices import DEVICES
from tests.support.dispatchers import by_size
from tests.support.guarded_members import random_dispatcher

CPU = DEVICES["llvm"]
TOY = Kernel.of(name="toy.tiles", operation="gemm", meaning="", parameters=(Parameter("tile", (1, 2, 8, 64)),),
                constraints=(("tile <= n", "a tile has n columns"), ("tile != 2 or n < 9", "narrow")),
                default={"tile": 1}, backends=("llvm",))


def tiles(sizes: list[int], *domain: str) -> Dispatcher:
    """A dispatcher of tiles that prefers the first valid one."""
    members = [Configuration.of("toy.tiles", {"tile": size}) for size in sizes]
    empty = np.zeros(0, np.int64)
    return Dispatcher.of(members, {"toy.tiles": TOY}, CPU, Rule(len(sizes), (), empty, empty, ()),
                         Domain.parse(operation("gemm"), domain or ["m=1..64", "n=1..256", "k=1..64"]))


def gemm(n: int, m: int = 4) -> Problem:
    return Problem.make("gemm", m=m, n=n, k=4)


def test_the_first_valid_member_in_the_rules_order_answers() -> None:
    dispatcher = tiles([64, 8, 1])
    assert dispatcher.fallback == 2
    assert dispatcher.gap == ""
    assert dispatcher.choose(gemm(100)) == Choice(0, 1, True, True)
    assert dispatcher.choose(gemm(20)) == Choice(1, 2, True, True)
    assert dispatcher.choose(gemm(7)) == Choice(2, None, True, True)
    assert dispatcher.choose(gemm(1000)) == Choice(0, 1, False, False)  # outside, and marked
    with pytest.raises(MisuseError, match="serves gemm, not conv2d"):
        dispatcher.choose(Problem.make("conv2d", c=1, h=1, w=1, k=1, r=1, s=1))


def test_without_a_fallback_it_says_for_which_shapes_nothing_is_valid() -> None:
    dispatcher = tiles([64, 8])
    assert dispatcher.fallback is None
    assert dispatcher.gap == "shapes for which none of these holds: (n >= 64); (n >= 8)"
    assert dispatcher.choose(gemm(7)) == Choice(None, None, False, True)
    assert tiles([64, 8], "m=1", "n=8..256", "k=1").fallback == 1
    together = tiles([2, 8], "m=1", "n=2..256", "k=1")  # none is valid for all, together they are
    assert (together.fallback, together.gap) == (None, "")


def test_a_domain_without_a_valid_kernel_gets_one_line() -> None:
    with pytest.raises(MisuseError, match="no kernel is valid for any shape of the domain: n >= 64 holds nowhere"):
        tiles([64], "m=1..9", "n=1..32", "k=1")


def test_recorded_choices_promise_nothing() -> None:
    members = [Configuration.of("toy.tiles", {"tile": 64})]
    empty = np.zeros(0, np.int64)
    dispatcher = Dispatcher.of(members, {}, None, Rule(1, (), empty, empty, ()),
                               Domain.parse(operation("gemm"), ["m=1", "n=1..9", "k=1"]))
    assert (dispatcher.promised, dispatcher.fallback, dispatcher.gap) == (False, None, "")
    assert dispatcher.choose(gemm(5, m=1)).member == 0


@pytest.mark.parametrize("name", ["gemm", "conv2d"])
def test_no_answer_is_invalid(name: str) -> None:
    texts = {"gemm": ["m=1..4096", "n=1..4096", "k=1..4096", "trans_b=no,yes"],
             "conv2d": ["c=1..256", "h=1..64", "k=1..256", "r=1..5", "pad=0..2", "groups=1..256", "layout=NCHW,NHWC"]}
    domain, kernels = Domain.parse(operation(name), texts[name]), families("llvm", name)
    dispatcher = random_dispatcher(domain, kernels, CPU, members=8)
    columns = domain.sample(20_000, np.random.default_rng(3))
    for shapes in (columns, ProblemColumns.of(list(domain.corners()))):
        choices = dispatcher.choose_many(shapes)
        valid = np.zeros((len(shapes), len(dispatcher.members)), bool)
        for number, member in enumerate(dispatcher.members):
            (family,) = (family for family in kernels if family.name == member.kernel)
            settings = {name: np.full(len(shapes), value) for name, value in member.settings}
            valid[:, number] = [reason is None for reason in Membership(family, shapes, CPU, settings).reasons]
        answered = choices.members >= 0
        assert answered.tolist() == valid.any(axis=1).tolist()
        assert valid[answered, choices.members[answered]].all()
        both = choices.seconds >= 0
        assert both.tolist() == (valid.sum(axis=1) > 1).tolist()
        assert valid[both, choices.seconds[both]].all()
        assert (choices.seconds != choices.members)[both].all()
        some = shapes.take(np.arange(16))
        for (_, problem), member in zip(some.problems(), choices.members[:16].tolist(), strict=True):
            assert dispatcher.choose(problem).member == (None if member < 0 else member)


def test_it_is_saved_and_loaded(tmp_path: Path) -> None:
    domain = Domain.parse(operation("gemm"), ["m=1..512", "n=8,16,1000", "k=1..512", "m % 2 == 0"])
    dispatcher = random_dispatcher(domain, families("llvm", "gemm"), CPU)
    dispatcher.save(tmp_path / "dispatch.json")
    loaded = Dispatcher.load(tmp_path / "dispatch.json")
    assert loaded.to_json() == dispatcher.to_json()
    assert (loaded.members, loaded.guards, loaded.device) == (dispatcher.members, dispatcher.guards, CPU)
    columns = domain.sample(500, np.random.default_rng(0))
    for one, other in zip(loaded.choose_many(columns), dispatcher.choose_many(columns), strict=True):
        assert one.tolist() == other.tolist()


CHANGES: list[tuple[list[str | int], Any, str]] = [
    (["format"], "other", "it is no seqtune dispatcher"), (["version"], 2, "update seqtune"),
    (["version"], "1", "update seqtune"), (["operation"], "gone", "no operation 'gone'"),
    (["operation"], "conv2d", "another declaration of conv2d"), (["features"], [], "another declaration"),
    (["derived"], [["flop", "1"]], "another declaration"), (["members"], [], "members: List should have at least 1"),
    (["members", 0, "settings"], {"tile": None}, "members.0.settings.tile"),
    (["members", 0, "settings"], {"tile": 1e400}, "'tile' is not a word or a number"),
    (["members", 0, "conditions"], ["m >="], "cannot read the expression"),
    (["members", 0, "conditions"], ["open('x')"], "not allowed"),
    (["members", 0, "conditions"], ["q > 1"], "reads 'q'"),
    (["members", 0, "conditions"], ["m > 1"] * 500, "at most 200"), (["members", 0, "reads"], ["q"], "reads 'q'"),
    (["fallback"], 7, "its fallback is 7"), (["fallback"], True, "fallback"), (["rule", "members"], 5, "rule has 5"),
    (["rule"], {}, "rule"), (["rule", "facts"], [{"name": "q", "text": "q"}], "reads 'q'"),
    (["domain"], ["m=1..9"], "lack n, k"),
    (["promised"], False, "names a fallback but promises nothing"),
    (["domain"], ["m=1..9"] * 300, "at most 200"), (["device"], {"name": "x"}, "a device needs backend"),
    (["device"], None, "promises valid members but names no device"), (["rule", "sure"], -1, "rule's sure: "),
    (["rule", "sure"], 1 << 63, "rule's sure: "), (["more"], 1, "more: Extra inputs"),
    (["gap"], 3, "gap: Input should be a valid string")]
NO_FACTS = ("dtype", "'a'", "m if m > 4 else dtype", "{8: 1}[m]", "dtype + 1", "dtype < 3", "2 ** m", "m << n",
            "(m, n)", "4e18 ** m", "m >> -1", "-trans_a")
CHANGES += [(["rule", "facts"], [{"name": "x", "text": text}], "the fact ") for text in NO_FACTS]


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


@pytest.mark.parametrize("text", ["", "[]", "3", "{", '{"format": ' * 100_000, "[" * 100_000, "\0" * 10])
def test_what_is_no_dispatcher_gets_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "d.json").write_text(text)
    with pytest.raises(FormatError) as caught:
        Dispatcher.load(tmp_path / "d.json")
    assert "\n" not in str(caught.value)
    with pytest.raises(FormatError, match="cannot read"):
        Dispatcher.load(tmp_path / "missing.json")


INFINITE = " * ".join(["4e18"] * 17)


@pytest.mark.parametrize("text", [f"m * {INFINITE}", f"-m * {INFINITE}", f"{INFINITE} * m - {INFINITE} * n", "m / n",
                                  "m // (m - 4)", "m * 0.5", "trans_a == 'no'", "m ^ -n", "m % (n - m)",
                                  " * ".join(["m"] * 40)])
def test_a_fact_is_a_number_for_every_shape_in_numpy_and_in_the_python_file(text: str) -> None:
    facts, domain = (Fact("x", Expression(text)),), Domain.parse(operation("gemm"), ["m=1..64", "n=1..64", "k=1"])
    empty, names = np.zeros(0, np.int64), dict[str, Any]()
    rule = Rule(1, facts, empty, empty, ())
    dispatcher = Dispatcher.of([Configuration.of("toy.tiles", {"tile": 1})], {"toy.tiles": TOY}, CPU, rule, domain)
    written = python_file(Dispatcher.from_json(dispatcher.to_json())).replace("_score([", "_kept([")
    values: list[list[int]] = []

    def kept(facts: list[int]) -> list[int]:
        values.append(facts)
        return [0]

    names["_kept"] = kept
    exec(written, names)
    columns = domain.sample(200, np.random.default_rng(0))
    for m, n in zip(columns.values["m"].tolist(), columns.values["n"].tolist(), strict=True):
        names["choose"](m=m, n=n)
    assert values == fact_columns(facts, columns).tolist()


def test_facts_that_no_feature_gives_are_refused() -> None:
    content = tiles([1]).to_json()
    content["rule"]["facts"] = [{"name": "x", "text": "tile"}]
    with pytest.raises(FormatError, match="reads 'tile', which gemm does not have"):
        Dispatcher.from_json(content)


@pytest.mark.parametrize(("part", "value", "reason"), [
    ("settings", {"q": 1}, "llvm.gemm has one value for each of"), ("conditions", [], "member 0 (llvm.gemm) lacks"),
    ("settings", {**dict(kernel("llvm.gemm").default), "vector": 7}, "llvm.gemm: vector=7 is not one of its values")])
def test_a_member_is_checked_against_the_kernel_that_is_known_here(part: str, value: Any, reason: str,
                                                                   tmp_path: Path) -> None:
    members = [Configuration.of("llvm.gemm", dict(kernel("llvm.gemm").default))] * 2
    content = by_size("m", 64, members, CPU, "m=8..512", "n=256", "k=256").to_json()
    Dispatcher.from_json(content)
    content["members"][0][part] = value
    (tmp_path / "d.json").write_text(json.dumps(content))
    with pytest.raises(FormatError, match=re.escape(reason)) as caught:
        Dispatcher.load(tmp_path / "d.json")
    assert "d.json: " in str(caught.value)
    content["members"][0]["version"] += 1  # of another version, nothing is known here
    Dispatcher.from_json(content)
