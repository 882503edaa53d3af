"""Kernels of aiter as families: one for each kind of product, whose space is a table of the kernels that exist.

The table is not known here: `family_of` makes it from the names that files of tuned products hold, for each GPU
architecture. A configuration is the parts of a name, and the slices of k; these go with any name of the same head.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from seqtune.errors import KernelError
from seqtune.kernels.combinations import combinations
from seqtune.kernels.kernel import Kernel, Parameter, Setting

from .name import PARTS, parts_of

BACKEND = "aiter"
SPLIT_K = "split_k"


class Product(NamedTuple):
    """One kind of product: the features that its problems have in common, and their meaning."""

    features: Mapping[str, str | int]
    meaning: str
    whole_scale: bool = False  # one scale for all inputs of an output: scale_k is k
    batched: bool = False


# By the name in aiter's files. Rows give the element types where they are missing here.
PRODUCTS: Mapping[str, Product] = {
    "a4w4_blockscale": Product({"dtype": "fp4", "weight_dtype": "fp4", "scale_n": 1, "scale_k": 32},
                               "products of 4-bit operands with scales of 32 inputs"),
    "a8w8_blockscale_bpreshuffle": Product(
        {"dtype": "fp8", "weight_dtype": "fp8", "scale_n": 128, "scale_k": 128, "shuffled": "yes"},
        "products of fp8 operands with scales of blocks, shuffled weights"),
    "a8w8_blockscale": Product({"dtype": "fp8", "weight_dtype": "fp8", "scale_n": 128, "scale_k": 128},
                               "products of fp8 operands with scales of blocks"),
    "a8w8_bpreshuffle": Product({"shuffled": "yes", "scale_n": 1}, "products of 8-bit operands, shuffled weights",
                                True),
    "a8w8_batched": Product({"dtype": "int8", "weight_dtype": "int8", "scale_n": 1}, "batches of 8-bit products", True,
                            True),
    "a8w8": Product({"scale_n": 1}, "products of 8-bit operands with a scale for each output", True),
    "bf16_batched": Product({"dtype": "bf16", "weight_dtype": "bf16"}, "batches of bf16 products", batched=True),
    "bf16": Product({"dtype": "bf16", "weight_dtype": "bf16"}, "bf16 products"),
}


def settings_of(name: str, split_k: int) -> dict[str, Setting]:
    """The settings that stand for a kernel and its slices of k. Raises FormatError."""
    return {**parts_of(name), SPLIT_K: split_k}


def family_of(product: str, chosen: Iterable[tuple[str, Mapping[str, Setting]]]) -> Kernel:
    """The family of a kind of product with the kernels that were chosen: pairs of architecture and settings.

    Its default is the most frequent choice, on all architectures together. Raises KernelError if there is none.
    """
    counts = Counter((architecture, tuple(settings.values())) for architecture, settings in chosen)
    if not counts:
        raise KernelError(f"no kernel of aiter for {product} is known")
    names = (*PARTS, SPLIT_K)
    rows = [dict(zip(names, values, strict=True)) for _, values in counts]
    parameters = [Parameter(name, tuple(sorted({row[name] for row in rows})), PARTS.get(name, "slices of k; 0: one"))
                  for name in names]  # numbers or words
    tables: dict[str, list[tuple[Setting, ...]]] = {}
    for architecture, values in sorted(counts, key=repr):
        tables.setdefault(architecture, []).append(values)
    derived, constraints = combinations("kernel", parameters[:-1], "architecture",
                                        {word: [row[:-1] for row in table] for word, table in tables.items()},
                                        "there is no such kernel for this architecture")
    head = next(parameter for parameter in parameters if parameter.name == "head")
    more_derived, more_constraints = combinations(
        "slices", [head, parameters[-1]], "architecture",
        {word: [(row[0], row[-1]) for row in table] for word, table in tables.items()},
        "such kernels are not run with so many slices of k")
    kind = PRODUCTS[product]
    solves = [(f"{name} == {value!r}", f"it is for {name}={value}") for name, value in kind.features.items()]
    if kind.whole_scale:
        solves.append(("scale_k == k", "an output has one scale"))
    elif "scale_k" not in kind.features:
        solves.append(("scale_k == 0", "it has no scales"))
    solves.append(("batch > 1", "it is for batches") if kind.batched else ("batch == 1", "it is for single products"))
    if "shuffled" not in kind.features:
        solves.append(("shuffled == 'no'", "the weights are not shuffled"))
    frequency = Counter[tuple[Setting, ...]]()
    for (_, values), count in counts.items():
        frequency[values] += count
    default = max(sorted(frequency, key=repr), key=frequency.__getitem__)
    return Kernel.of(
        name=f"{BACKEND}.{product}", operation="quantized_gemm", meaning=f"aiter's {kind.meaning}",
        parameters=parameters, derived=(*derived, *more_derived),
        solves=[*solves, (f"architecture in ({', '.join(map(repr, sorted(tables)))},)",
                          "no kernels are known for this architecture")],
        constraints=(*constraints, *more_constraints), default=dict(zip(names, default, strict=True)))
