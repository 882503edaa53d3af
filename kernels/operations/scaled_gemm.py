"""scaled_gemm: matrix product of 8-bit operands with scales of blocks, for vLLM and SGLang; nothing here runs it."""

from __future__ import annotations

from ..expression import Expression
from .feature import Feature
from .operation import Operation, ProblemView


class ScaledGemm(Operation):
    """Linear layer with block-wise scales: C[m,n] = sum over blocks of k of scale_a scale_b A[m,block] B[n,block]."""

    name = "scaled_gemm"
    meaning = "matrix product of 8-bit operands, where each block of the weights has a scale"
    example = "scaled_gemm m=64 n=2048 k=7168"
    features = (
        Feature("m", "tokens: rows of A and C", required=True),
        Feature("n", "outputs: rows of B, columns of C", required=True),
        Feature("k", "inputs: columns of A and B", required=True),
        Feature("dtype", "element types of weights and activations", "fp8_w8a8", choices=("fp8_w8a8", "int8_w8a8")),
        Feature("scale_n", "outputs that share a scale of the weights", 128),
        Feature("scale_k", "inputs that share a scale of the weights, or of the activations", 128),
    )
    derived = (("flop", Expression("2 * m * n * k")),)
    elements = {"A": "m * k", "B": "n * k", "C": "m * n"}  # noqa: RUF012
    sizes = ("m", "n", "k")
    quantities = ("m", "n", "k")
    tiled_sizes = ("m", "n", "k")

    def kind(self, problem: ProblemView) -> tuple[object, ...]:
        """The element types and the scales."""
        return tuple(problem[name] for name in ("dtype", "scale_n", "scale_k"))


OPERATION = ScaledGemm()
