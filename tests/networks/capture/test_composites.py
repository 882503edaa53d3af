"""Operations that PyTorch computes by calling others: each distinct one is traced alone, the whole graph never."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.export import ExportedProgram

from seqtune.networks.capture.composites import Composites
from tests.networks.capture.functions import Function, check

VIEWS = ("swapaxes", "swapdims", "tensor_split")  # PyTorch's versions differ in which others they hand over
MAY_WRITE = tuple(getattr(torch.Tag, name) for name in ("maybe_aliasing_or_mutating",) if hasattr(torch.Tag, name))


@pytest.fixture
def no_second_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """An export that fails where PyTorch traces the whole graph a second time."""
    def refused(*args: Any, **kwargs: Any) -> ExportedProgram:
        raise AssertionError("the whole graph is traced a second time")

    monkeypatch.setattr(ExportedProgram, "run_decompositions", refused)


def in_parts(y: Tensor) -> Tensor:
    first, second = y.tensor_split(2, 1)
    return first.swapaxes(2, 3) * second.swapaxes(2, 3)


@pytest.mark.parametrize(("function", "names"), [
    (lambda y: y.swapaxes(1, 2) + 1, ["swapaxes"]), (lambda y: y.moveaxis(1, -1).swapdims(1, 2) * 2, ["swapdims"]),
    (in_parts, ["tensor_split", "swapaxes", "swapaxes"]),  # the parts begin at different places
    (lambda y: torch.unflatten(y, 1, (2, 2)).swapaxes(1, 2).flatten(1, 2) + 1, ["swapaxes"]),
    (lambda y: torch.vstack((y, y)).swapaxes(0, 1) + 1, ["swapaxes"])])
@pytest.mark.usefixtures("no_second_trace")
def test_an_operation_that_hides_a_view_is_traced_alone(
        function: Function, names: list[str]) -> None:
    composites = Composites()
    check(function, composites)
    traced = [str(target).split(".")[1] for target, _ in composites.traces]
    assert [name for name in traced if name in VIEWS] == names


def written(y: Tensor) -> Tensor:
    """A view that is written after it was taken: the trace alone would be a copy."""
    z = y.swapaxes(1, 2)
    z.mul_(2)
    return y + 1


def composite_in_place(y: Tensor) -> Tensor:
    return y.absolute_().swapaxes(1, 2)


def sizes_that_a_run_decides(y: Tensor) -> Tensor:
    return y + y.nonzero().swapaxes(0, 1).sum()


@pytest.mark.parametrize("function", [written, composite_in_place, sizes_that_a_run_decides])
def test_what_is_not_plain_is_left_to_a_trace_of_the_whole_graph(
        function: Function, second_traces: list[ExportedProgram]) -> None:
    check(function)
    assert len(second_traces) == 1


def test_a_composite_that_cannot_be_traced_is_left_to_a_trace_of_the_whole_graph(
        second_traces: list[ExportedProgram]) -> None:
    def fails(*args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("an operation without a kernel for such tensors")

    check(in_parts, Composites(fails))
    assert len(second_traces) == 1


def test_a_composite_that_changes_tensors_inside_is_left_to_a_trace_of_the_whole_graph(
        second_traces: list[ExportedProgram]) -> None:
    library: Any = torch.library.Library("seqtune_test", "FRAGMENT")  # type: ignore[no-untyped-call]
    library.define("doubled(Tensor x) -> Tensor", tags=MAY_WRITE)
    library.impl("doubled", lambda x: x.clone().mul_(2), "CompositeImplicitAutograd")
    composites = Composites()
    check(lambda y: torch.ops.seqtune_test.doubled(y) + 1, composites)
    assert len(second_traces) == len(composites.traces) == 1
