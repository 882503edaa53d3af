"""A dispatch as the heuristics of Arm Compute Library."""

from __future__ import annotations

from pathlib import Path

import pytest

import seqtune.arm_compute
from seqtune.errors import MisuseError
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Configuration, Kernel, Parameter
from seqtune.kernels.operations.table import operation
from seqtune.predictor.dispatch.dispatcher import Dispatcher
from seqtune.predictor.dispatch.domain import Domain
from seqtune.predictor.dispatch.facts import Fact
from seqtune.predictor.dispatch.rule import Rule, Tree
from tests.support.devices import DEVICES

# Golden: written from the grammar in the library's src/runtime/CL/mlgo/MLGOParser.h, not by the library.
GOLDEN = """<header>
gemm-version,[1,2,1]
ip-type,gpu
</header>
<heuristics-table>
0,g76,12,f32,best-performance,static,gemm-type,[m,n,k,b]
1,g76,12,f32,best-performance,static,gemm-config-native,[m,n,k,b]
</heuristics-table>
<heuristic,0>
l,0,gemm-type,native
</heuristic>
<heuristic,1>
b,0,var,m,>,num,64.,2,1
b,1,var,n,>,num,100.,4,3
b,2,var,n,>,num,100.,6,5
l,3,gemm-config-native,[2,4,8]
l,4,gemm-config-native,[4,4,4]
l,5,gemm-config-native,[4,4,4]
l,6,gemm-config-native,[4,4,4]
</heuristic>
"""
M, N, PRODUCT = (Fact(text, Expression(text)) for text in ("m", "n", "m * n"))
TREE = Tree((0, 1, 1), ((-1, 1), (2, 0), (1, -3), (0, -1)))


def dispatched(folder: Path, *facts: Fact, trees: tuple[Tree, ...] = (TREE,), dtype: str = "fp32",
               constraint: str = "m0 <= 4") -> Path:
    """The file of a dispatch of two configurations, the first for small products."""
    kernel = Kernel.of(name="arm.native", operation="gemm", meaning="", parameters=[
        Parameter(name, (1, 2, 4, 8)) for name in ("n0", "m0", "k0")], constraints=[(constraint, "why")],
        default={"m0": 1, "n0": 1, "k0": 1}, backends=("opencl",))
    members = [Configuration.of(kernel.name, dict(zip(("n0", "m0", "k0"), sizes, strict=True)))
               for sizes in ((4, 2, 8), (4, 4, 4))]
    folder.mkdir(exist_ok=True)
    domain = Domain.parse(operation("gemm"), ["m=1..512", "n=1..512", "k=1..512", f"dtype={dtype}"])
    Dispatcher.of(members, {kernel.name: kernel}, DEVICES["opencl"],
                  Rule(2, facts, ((0, 64), (1, 100)), trees), domain).save(folder / "dispatch.json")
    return folder / "dispatch.json"


def test_a_tree_over_sizes_is_written_in_the_words_of_the_library(tmp_path: Path) -> None:
    assert seqtune.arm_compute.mlgo_file(dispatched(tmp_path, M, N), "g76", 12) == GOLDEN


def test_what_the_form_cannot_say_is_refused_in_one_line(tmp_path: Path) -> None:
    for path, reason in ((dispatched(tmp_path / "facts", M, PRODUCT), "not one tree that compares m, n and k"),
                         (dispatched(tmp_path / "trees", M, N, trees=(TREE, TREE)), "not one tree"),
                         (dispatched(tmp_path / "types", M, N, dtype="int8"), "not gemm in fp32 or fp16"),
                         (dispatched(tmp_path / "guard", M, N, constraint="m0 <= m"), "not proved valid")):
        with pytest.raises(MisuseError, match=reason) as refused:
            seqtune.arm_compute.mlgo_file(path, "g76", 12)
        assert "\n" not in str(refused.value)
    written = dispatched(tmp_path, M, N)
    for arguments in ((written, None, 12), (written, "G76", 12), (written, "g76", 12.5), (written, "g76", "12"),
                      (written, "g76", True), (None, "g76", 12)):
        with pytest.raises(MisuseError, match=r"name a GPU as the library does|must be a path"):
            seqtune.arm_compute.mlgo_file(*arguments)
