"""The file of a dispatch answers wherever a checkpoint does: the members first, the safe default behind them."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqtune.errors import CheckpointError, FormatError, KernelError
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.task import Task
from seqtune.predictor.answering import answering
from seqtune.predictor.dispatch.dispatcher import Dispatcher
from seqtune.predictor.dispatch.domain import Domain
from seqtune.predictor.dispatch.rule import Rule, Tree
from seqtune.predictor.predictors import named_predictor
from tests.support.devices import device_of
from tests.support.dispatchers import by_size, saved

DEVICE = device_of("llvm")
LARGE = Problem.make("gemm", m=512, n=256, k=256)


@pytest.fixture
def members() -> list[Configuration]:
    """Two configurations that are valid for many products, none of them the safe default of LARGE."""
    task = Task.of(LARGE, DEVICE)
    small = Task.of(Problem.make("gemm", m=8, n=256, k=256), DEVICE)
    both = [one for number in range(0, len(task), 97) if small.find(one := task[number]) is not None
            and one.kernel == "llvm.gemm" and one != task.default]
    return both[:2]


@pytest.fixture
def file(members: list[Configuration], tmp_path: Path) -> Path:
    return saved(tmp_path, by_size("m", 64, members, DEVICE, "m=8..512", "n=256", "k=256"))


def test_a_shape_gets_the_member_of_the_rule_then_the_other_then_the_default(
        file: Path, members: list[Configuration]) -> None:
    for m, order in ((8, members), (512, members[::-1])):
        asked = answering(Problem.make("gemm", m=m, n=256, k=256), DEVICE, file)
        assert list(asked.propose(3)) == [*order, asked.task.default]
        assert list(asked.propose(1)) == order[:1]
        assert asked.notes == ()


def test_outside_of_the_domain_there_is_the_default_and_a_note_says_so(file: Path) -> None:
    asked = answering(Problem.make("gemm", m=512, n=256, k=512), DEVICE, str(file))
    assert list(asked.propose(3)) == [asked.task.default]
    assert asked.notes == ("gemm m=512 n=256 k=512 is outside of the domain of dispatch.json",)


def test_all_members_are_proposed_in_the_order_of_the_rule(tmp_path: Path) -> None:
    task = Task.of(LARGE, DEVICE)
    members = [task[number] for number in range(0, len(task), len(task) // 5)][:5]
    rule = Rule(5, trees=(Tree((), ((3, 1, 4, 2, 0),)),))
    families = {name: kernel(name) for name in {member.kernel for member in members}}
    file = saved(tmp_path, Dispatcher.of(members, families, DEVICE, rule, Domain.of_shapes([LARGE])))
    asked = answering(LARGE, DEVICE, file)
    assert list(asked.propose(5)) == [members[number] for number in (4, 1, 3, 0, 2)]


def test_what_it_cannot_answer_is_one_line(file: Path, tmp_path: Path) -> None:
    convolution = Problem.make("conv2d", c=16, h=14, w=14, k=32, r=3, s=3)
    with pytest.raises(CheckpointError, match=r"dispatch\.json chooses among llvm\.gemm, not llvm\."):
        named_predictor(file).check_kernels(Task.of(convolution, DEVICE).kernels)
    with pytest.raises(KernelError, match=r"dispatch\.json chooses kernels for gemm, not for conv2d"):
        answering(convolution, DEVICE, file)
    with pytest.raises(CheckpointError, match=r"dispatch\.json answers for llvm devices, not for opencl"):
        answering(LARGE, device_of("opencl"), file)
    with pytest.raises(CheckpointError, match=r"cannot read .*nothing\.json: No such file"):
        named_predictor(tmp_path / "nothing.json")
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(FormatError, match=r"other\.json: it is no seqtune dispatcher"):
        named_predictor(tmp_path / "other.json")
