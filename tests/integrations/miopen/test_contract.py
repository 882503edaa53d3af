"""MIOpen's own data, where it is at hand: every label lies in its space, and the spaces are no laxer than MIOpen.

The data is not part of the repository: it is looked for in `../shared/miopen`, or where SEQTUNE_MIOPEN_DATA says.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqtune.data.dataset import Dataset, configuration
from seqtune.integrations.miopen.formats.export import best_of, entries, write_text, write_udb
from seqtune.integrations.miopen.formats.importing import read_files, solver_of, tables_of
from seqtune.integrations.miopen.formats.terms import COLUMNS, miopen_terms
from seqtune.integrations.miopen.kernels.solver import SOLVERS, WrittenField
from seqtune.integrations.miopen.kernels.xdlops_tables import RowSolver
from seqtune.kernels.expression import Expression
from seqtune.kernels.membership import Membership
from seqtune.kernels.problem_sets.columns import ProblemColumns
from seqtune.kernels.space import SearchSpace
from tests.support.paths import MIOPEN as DATA

PERF_DBS = sorted(DATA.glob("*.db.bz2")) if DATA.is_dir() else []
NO_SPACE = {"ConvHipImplicitGemmFwdXdlops", "ConvHipImplicitGemmBwdXdlops"}  # of Composable Kernel: names, not numbers
ODD = "ConvOclDirectFwdFused: in_tile1 is not one of the kernel's values"  # labels of ConvOclDirectFwd1x1's form
MOST_ODD = 28

pytestmark = pytest.mark.skipif(not PERF_DBS, reason=f"MIOpen's perf-dbs are not in {DATA}")


@pytest.fixture(scope="module")
def imported() -> tuple[Dataset, Counter[str]]:
    data, reports = read_files(PERF_DBS)
    skipped: Counter[str] = Counter()
    for report in reports:
        skipped.update(report["skipped"])
    return data, skipped


def test_every_label_lies_in_its_space(imported: tuple[Dataset, Counter[str]]) -> None:
    data, skipped = imported
    assert len(data) > 200_000
    left_out = {reason: count for reason, count in skipped.items() if reason.partition(":")[0] not in NO_SPACE}
    assert set(left_out) <= {ODD}
    assert left_out.get(ODD, 0) <= MOST_ODD
    assert set(data.rows["kernel"].str.removeprefix("miopen.")) <= set(SOLVERS)


def test_the_enumerated_space_holds_them_too(imported: tuple[Dataset, Counter[str]]) -> None:
    data, _ = imported
    for kernel, rows in data.rows.groupby("kernel"):
        solver = solver_of(data, str(kernel).removeprefix("miopen."))
        for row in rows.sample(2, random_state=0).itertuples():
            space = SearchSpace(solver.kernel, data.known_problems[str(row.problem)], data.devices[str(row.device)])
            assert configuration(str(kernel), str(row.configuration)) in space
            assert space.default in space


def test_what_is_exported_is_what_was_imported(imported: tuple[Dataset, Counter[str]], tmp_path: Path) -> None:
    whole, _ = imported
    data = replace(whole, rows=whole.rows.groupby("kernel").sample(300, random_state=0, replace=True).drop_duplicates())
    for device in data.devices.values():
        found = entries(best_of(data, device), device, tables_of(data))
        base = device.name.removeprefix("miopen:")
        write_text(found, tmp_path / f"{base}.HIP.udb.txt")
        write_udb(found, tmp_path / f"{base}_1.1.0.udb")
        want = data.on(device.key).rows[["problem", "kernel", "configuration"]]
        for path in (tmp_path / f"{base}.HIP.udb.txt", tmp_path / f"{base}_1.1.0.udb"):
            again, (report,) = read_files([path])
            assert not report["skipped"]
            got = again.rows[["problem", "kernel", "configuration"]]
            assert set(got.itertuples(index=False, name=None)) == set(want.itertuples(index=False, name=None))


TABLES = json.loads((DATA / "spaces.json").read_text()) if (DATA / "spaces.json").exists() else {"solvers": {}}


@pytest.mark.parametrize("name", [name for name, one in TABLES["solvers"].items() if not one.get("categorical")])
def test_a_space_says_what_the_declared_facts_say(imported: tuple[Dataset, Counter[str]], name: str) -> None:
    """Random configurations of real problems: the same verdict as the fact file's own expressions."""
    data, _ = imported
    facts, solver = TABLES["solvers"][name], solver_of(data, name)
    assert not isinstance(solver, RowSolver)
    generator = np.random.default_rng(0)
    rows = data.rows[data.rows["kernel"] == solver.kernel.name]
    for device in data.devices.values():
        some = rows[rows["device"] == device.key]
        if some.empty:
            continue
        some = some.sample(4000, random_state=0, replace=True)
        problems = ProblemColumns.of([data.known_problems[key] for key in some["problem"]])
        labels = [json.loads(text) for text in some["configuration"]]
        settings = {}
        for parameter in solver.kernel.parameters:  # labels, of which every fifth value is drawn anew
            own = np.array([label[parameter.name] for label in labels])
            allowed = next(one.get("full_domain", one["domain"]) for one in facts["params"]
                           if one["name"] == parameter.name)
            drawn = generator.choice(np.intersect1d(parameter.values, allowed + own.tolist()), len(own))
            settings[parameter.name] = np.where(generator.random(len(own)) < 0.2, drawn, own)
        member = Membership(solver.kernel, problems, device, settings)
        written = {one.name: member.evaluate(one.expression) for one in solver.fields if isinstance(one, WrittenField)}
        ignored = {one.name for one in solver.fields if isinstance(one, WrittenField) and one.ignored}
        verdict = _verdict(facts, problems, {**settings, **written}, ignored, device.name.removeprefix("miopen:"))
        ours = np.array([reason is None for reason in member.reasons])
        assert (verdict == ours).all(), (name, device.name, int((verdict & ~ours).sum()), int((ours & ~verdict).sum()))


def _verdict(facts: Any, problems: ProblemColumns, settings: dict[str, Any], ignored: set[str], gpu: str) -> Any:
    common = TABLES["common"]
    names: dict[str, Any] = {key: value for key, value in common["device_features"].items()
                             if not isinstance(value, dict | str)}
    names |= {key: value[gpu] for key, value in common["device_features"].items() if isinstance(value, dict)}
    names |= {"max_alloc_bytes": 2**34, "rem_h": 0, "rem_w": 0, **facts.get("constants", {})}
    names |= dict(zip(COLUMNS, map(np.array, zip(*miopen_terms(problems), strict=True)), strict=True))
    names["out_d"] = problems.values["out_d"]
    names |= settings
    for one in (*common["problem_features"]["derived"], *facts["derived"]):
        names[one["name"]] = np.asarray(Expression(one["expr"])(names))
    for side in ("h", "w"):  # MIOpen's rounding towards zero, of a few impossible problems
        names[f"out_{side}"] = np.maximum(names[f"out_{side}"], 1)
    for one in facts["derived"]:
        names[one["name"]] = np.asarray(Expression(one["expr"])(names))
    verdict = np.ones(len(problems), dtype=bool)
    for one in facts["params"]:
        if one["name"] not in ignored:
            verdict &= np.isin(settings[one["name"]], one.get("full_domain", one["domain"]))
    for one in facts["constraints"]:
        if one["kind"] == "valid":
            verdict &= np.broadcast_to(np.asarray(Expression(one["expr"])(names), dtype=bool), len(problems))
    return verdict
