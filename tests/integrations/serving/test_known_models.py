"""KnownModels: sizes that files of experts do not tell."""

from __future__ import annotations

from seqtune.integrations.serving.formats.known_models import completed
from seqtune.integrations.serving.formats.table_file import TableFile
from seqtune.kernels.problem import Problem


def test_sizes_that_no_file_name_tells_are_those_of_the_model_with_such_experts() -> None:
    file = TableFile.parse("E=256,N=256,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json")
    problem = completed(file.problem(64))
    assert (problem["hidden"], problem["top_k"]) == (7168, 8)
    assert completed(problem) == problem
    strange = completed(Problem.make("fused_moe", tokens=8, experts=2, top_k=None, hidden=None, intermediate=100))
    assert strange.size("top_k") <= 2 * strange.size("expert_parallel")
