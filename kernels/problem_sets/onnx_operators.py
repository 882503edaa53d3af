"""ONNX's operators: which of them hold products, and what they are.

No list names them, since ONNX gains operators: the name of an operator tells (`CausalConvWithState`), or the first
clause of what the installed package says of it, or the nodes that it is a function of. An operator that the installed
package does not know may hold anything, so it is named as such.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

_WORDS = (  # in a name, in a description, what it is; the first that fits counts
    (r"Conv(?![a-z])", r"\b(?:de)?convol", "convolution"),
    (r"Attention", r"\battention\b", "attention"),
    (r"MatMul|Gemm", r"\bmatrix (?:product|multipl)|\bmatmul\b|\bgemm\b", "product"),
    (r"Einsum", r"\beinsum\b", "sum of products by an equation"),
    (r"RNN|LSTM|GRU", r"\brecurren|\bRNN\b|\bLSTM\b|\bGRU\b", "recurrent layer"))
_QUALITIES = (  # in a name, and the quality that it stands for
    (r"Q(?:uant\w*?)?Linear|Integer|Quant", "quantized"), (r"Transpose", "transposed"), (r"Deform", "deformable"),
    (r"Causal", "causal"), (r"(?<!Q)(?<!uant)Linear", "linear"), (r"Grouped", "grouped"), (r"Sparse", "sparse"))
_WITHOUT_ARTICLE = ("attention",)
PRODUCTS = ("Conv", "Gemm", "MatMul", "Einsum")  # operators that functions are made of


@cache
def products_in(operator: str) -> str:
    """Describe an operator of ONNX's own domain with products, "a causal convolution"; empty for one without products.

    An operator that the installed package does not know is named as unknown.
    """
    named = _named(operator)
    if named:
        return named
    import onnx

    try:
        schema = onnx.defs.get_schema(operator)
    except onnx.defs.SchemaError:
        return f"onnx {onnx.__version__} does not know it; it may hold products"
    clause = re.split(r"[.,:;(]", " ".join((schema.doc or "").split()), maxsplit=1)[0]
    described = next((what for _, pattern, what in _WORDS if re.search(pattern, clause, re.IGNORECASE)), "")
    if described:
        return _with_article(described)
    inner = _body(schema)
    return f"a function with {', '.join(dict.fromkeys(inner))}" if inner else ""


def _named(operator: str) -> str:
    """Describe an operator by its name; empty if that says nothing of products."""
    what = next((what for pattern, _, what in _WORDS if re.search(pattern, operator)), "")
    qualities = [quality for pattern, quality in _QUALITIES if re.search(pattern, operator)]
    return _with_article(" ".join([*qualities, what])) if what else ""


def _body(schema: Any) -> list[str]:
    """The operators with products in the function that an operator is, if its schema has one."""
    nodes = schema.function_body.node if schema.has_function else ()
    return [node.op_type for node in nodes if node.op_type in PRODUCTS or _named(node.op_type)]


def _with_article(words: str) -> str:
    if words.rpartition(" ")[2] in _WITHOUT_ARTICLE:
        return words
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"
