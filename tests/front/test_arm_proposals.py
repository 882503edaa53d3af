"""First proposals for ARM CPUs that nobody measured: valid, and the safe default computes with whole vectors."""

from __future__ import annotations

import pytest

import seqtune
from seqtune.errors import DeviceError
from seqtune.kernels.devices.processors import PROCESSORS
from seqtune.kernels.kernel import quantities
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.space import spaces_for
from seqtune.tuner.backends.discovery import find

PROBLEMS = (
    "gemm m=256 n=512 k=256", "gemm m=1 n=1000 k=2048 bias=yes", "gemm m=64 n=256 k=128 dtype=int8",
    "conv2d c=64 h=56 w=56 k=64 r=3 s=3 pad=1", "conv2d c=3 h=224 w=224 k=64 r=7 s=7 stride=2 pad=3 layout=NHWC",
    "conv2d c=32 h=28 w=28 k=32 r=3 s=3 pad=1 groups=32", "attention heads=4 q_len=128 kv_len=128 head_dim=64")
TILED = ("llvm.direct", "llvm.gemm", "llvm.gemm_int8")  # families of register tiles that visit packed panels
PROPOSED = 5


@pytest.mark.parametrize("core", PROCESSORS)
def test_proposals_are_valid_and_the_default_is_sensible(core: str) -> None:
    device = find(f"llvm:{core}")
    for words in PROBLEMS:
        problem = parse_problem(words.split())
        spaces = {space.kernel.name: space for space in spaces_for(problem, device)}
        answer = seqtune.predict(words, device, top=PROPOSED)
        proposed = {candidate.configuration for candidate in answer.candidates}
        assert len(proposed) == PROPOSED, words
        assert all(configuration in spaces[configuration.kernel] for configuration in proposed), words
        for name in set(TILED) & spaces.keys() if dict(problem).get("groups", 1) == 1 else ():
            default = spaces[name].default
            names = quantities(spaces[name].kernel.derived, problem, device, default)
            assert default["vector"] == device.vector_floats, (words, name)
            assert names["accumulators"] < device.vector_registers, (words, name)
            assert names["panel_bytes"] <= device.l2_bytes, (words, name)


def test_a_described_processor_is_not_measured_on() -> None:
    with pytest.raises(DeviceError, match="llvm:apple-m1 is not in this machine; one can predict and compile for it"):
        seqtune.tune("gemm m=8 n=8 k=8", "llvm:apple-m1", trials=1)


def test_an_unknown_processor_is_refused_in_one_line() -> None:
    with pytest.raises(DeviceError, match="no device 'llvm:neoverse-v9'"):
        find("llvm:neoverse-v9")
