"""Guards have the verdict of search spaces for CLBlast's products, too."""

from __future__ import annotations

from seqtune.integrations.clblast.kernels import xgemm, xgemm_direct
from seqtune.kernels.operations.table import operation
from seqtune.predictor.dispatch.domain import Domain
from tests.support.devices import DEVICES
from tests.support.guarded_members import check_guards


def test_guards_of_clblast_agree_with_its_spaces() -> None:
    domain = Domain.parse(operation("gemm"), ["m=1..4096", "n=1..4096", "k=1..4096", "trans_a=no,yes"])
    check_guards(domain, [xgemm.KERNEL, xgemm_direct.KERNEL], DEVICES["opencl"], members=30)
