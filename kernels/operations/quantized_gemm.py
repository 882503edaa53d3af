"""quantized_gemm: matrix product whose operands have element types of their own, with packed weights and scales.

gemlite and aiter run it; nothing here does.
"""

from __future__ import annotations

from ..expression import Expression
from .feature import Feature
from .operation import Operation, ProblemView

INPUTS = {"fp16": 16, "bf16": 16, "fp8": 8, "int8": 8, "fp4": 4}  # element types of the activations -> bits
WEIGHTS = {**INPUTS, "int4": 4, "int2": 2, "int1": 1}  # element types of the weights -> bits


class QuantizedGemm(Operation):
    """Matrix product C[m,n] = A[m,k] B[k,n]; scale_n outputs by scale_k inputs of the weights share a scale."""

    name = "quantized_gemm"
    meaning = "matrix product of activations and weights with types, packing and scales of their own"
    example = "quantized_gemm m=16 n=4096 k=4096 dtype=fp16 weight_dtype=int4 packed=8 scale_n=1 scale_k=128"
    features = (
        Feature("m", "tokens: rows of A and C", required=True),
        Feature("n", "outputs: columns of B and C", required=True),
        Feature("k", "inputs: columns of A, rows of B", required=True),
        Feature("dtype", "element type of the activations", required=True, choices=tuple(INPUTS)),
        Feature("weight_dtype", "element type of the weights", required=True, choices=tuple(WEIGHTS)),
        Feature("packed", "weights in a stored word", 1, high=32),
        Feature("scale_n", "outputs that share a scale of the weights; 0: no scales", 0, low=0),
        Feature("scale_k", "inputs that share a scale of the weights; 0: no scales", 0, low=0),
        Feature("shuffled", "the weights are stored in the order in which matrix units read them", "no",
                choices=("no", "yes")),
        Feature("batch", "independent products", 1),
        Feature("bias", "epilogue: add one number per output", "no", choices=("no", "yes")),
        Feature("out_dtype", "element type of the result", choices=("fp16", "bf16", "fp32")),
    )
    derived = (
        ("flop", Expression("2 * batch * m * n * k")),
        ("input_bits", Expression(f"{INPUTS}[dtype]")),
        ("weight_bits", Expression(f"{WEIGHTS}[weight_dtype]")),
        ("word_bytes", Expression(f"max(1, packed * {WEIGHTS}[weight_dtype] // 8)")),
    )
    rules = (
        (Expression("(scale_n > 0) == (scale_k > 0)"), "blocks of scales have both sizes or neither"),
    )
    sizes = ("m", "n", "k")
    quantities = ("m", "n", "k", "scale_k")
    tiled_sizes = ("m", "n", "k")

    def kind(self, problem: ProblemView) -> tuple[object, ...]:
        """Types, packing, storage and epilogue; and the scales, of which one for all inputs is a kind of its own."""
        whole = problem["scale_k"] is not None and problem["scale_k"] == problem["k"]
        return (*(problem[name] for name in ("dtype", "weight_dtype", "packed", "scale_n", "shuffled", "batch", "bias",
                                             "out_dtype")), "whole" if whole else problem["scale_k"])


OPERATION = QuantizedGemm()
