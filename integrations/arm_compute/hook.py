"""Arm Compute Library: a dispatch as the file of heuristics (`.mlgo`) by which it chooses its matrix products.

The form is that of the grammar in the library's `src/runtime/CL/mlgo/MLGOParser.h` (2021): a table of trees for a GPU
and an element type, and the trees, whose branches compare m, n or k with a number. There is neither a guard nor a
domain in it. Users know this as `seqtune.arm_compute`.
"""

from __future__ import annotations

import re
from pathlib import Path

from seqtune.errors import MisuseError, shown
from seqtune.kernels.files import check_path
from seqtune.predictor.dispatch.dispatcher import Dispatcher

__all__ = ["mlgo_file"]

TYPES = {"fp32": "f32", "fp16": "f16"}
CONFIGS = {  # the type of a product -> the settings of its kernel in the order of the file
    "native": ("m0", "n0", "k0"),
    "reshaped-only-rhs": ("m0", "n0", "k0", "h0", "interleave_rhs", "transpose_rhs", "export_cl_image"),
    "reshaped": ("m0", "n0", "k0", "v0", "h0", "interleave_lhs", "interleave_rhs", "transpose_rhs", "export_cl_image")}
LARGEST_NUMBER = 1 << 32
LARGEST_THRESHOLD = 1 << 24  # the library compares numbers of 32 bits, which hold all whole numbers up to it


def mlgo_file(dispatcher: str | Path, gpu: str, cores: int) -> str:
    """The text of a `.mlgo` file for a GPU by the library's name, such as g76, from the JSON file of a dispatch.

    The kernel is one whose parameters are named as the library's: m0, n0, k0, and for its reshaped products also h0,
    v0, interleave_lhs and so on. Its shapes are products of matrices that are not transposed, in fp32 or fp16. Only a
    rule of at most one tree that compares m, n and k can be written, and only kernels that are valid in the whole
    domain; what the library computes outside of it, nobody chose. Raises MisuseError.
    """
    check_path("dispatcher", dispatcher or "")  # None is no file here
    chosen = Dispatcher.load(dispatcher)
    rule, fixed = chosen.rule, chosen.domain.fixed
    names = [fact.expression.text for fact in rule.facts]
    kind = next((kind for kind, settings in CONFIGS.items()
                 if all({*settings} == {name for name, _ in member.settings} for member in chosen.members)), None)
    named = isinstance(gpu, str) and re.fullmatch("[a-z][a-z0-9]{0,39}", gpu)
    if not named or type(cores) is not int or not 0 < cores < LARGEST_NUMBER:
        raise MisuseError(f"gpu={shown(gpu)} with cores={shown(cores)}; name a GPU as the library does (g76) and its "
                          "number of cores")
    reasons = {
        "its operation is not gemm in fp32 or fp16 without transposed matrices": chosen.operation.name != "gemm"
        or fixed.get("dtype") not in TYPES or (fixed.get("trans_a"), fixed.get("trans_b")) != ("no", "no"),
        "its kernels do not have the parameters of one of the library's": kind is None or not all(
            isinstance(value, int) and 0 <= value < LARGEST_NUMBER for member in chosen.members
            for _, value in member.settings),
        "its kernels are not proved valid in the whole domain": not chosen.promised or not all(
            guard.is_proved(chosen.domain) for guard in chosen.guards),
        "its rule is not one tree that compares m, n and k": len(rule.trees) > 1 or not {*names} <= {"m", "n", "k"}
        or not all(0 <= threshold < LARGEST_THRESHOLD for _, threshold in rule.tests)}
    wrong = next((reason for reason, holds in reasons.items() if holds), None)
    if wrong is not None or kind is None:
        raise MisuseError(f"{dispatcher} has no form as .mlgo: {wrong}")
    leaves = [f"gemm-config-{kind},[{','.join(str(int(member[name])) for name in CONFIGS[kind])}]"
              for member in chosen.members]
    lines = [f"l,0,{leaves[0]}"]
    for tree in rule.trees:
        tests = [(names[fact], threshold) for fact, threshold in (rule.tests[test] for test in tree.tests)]
        lines = [f"b,{node},var,{name},>,num,{threshold}.,{2 * node + 2},{2 * node + 1}"
                 for node, (name, threshold) in enumerate(tests)]
        lines += [f"l,{number},{leaves[levels.index(min(levels))]}"
                  for number, levels in enumerate(tree.leaves, len(tests))]
    table = [f"{number},{gpu},{cores},{TYPES[str(fixed['dtype'])]},best-performance,static,{what},[m,n,k,b]"
             for number, what in enumerate(("gemm-type", f"gemm-config-{kind}"))]
    return "\n".join([
        "<header>", "gemm-version,[1,2,1]", "ip-type,gpu", "</header>", "<heuristics-table>", *table,
        "</heuristics-table>", "<heuristic,0>", f"l,0,gemm-type,{kind}", "</heuristic>", "<heuristic,1>", *lines,
        "</heuristic>", ""])
