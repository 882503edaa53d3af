"""Reference: text in C and in NumPy that computes what a problem's output should be, by the definition in double.

The C function computes one element, so that a check can look at all elements, or at some of a large output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from seqtune.errors import MisuseError
from seqtune.kernels.problem import Problem

from ..measuring.timing import allowed_error
from .packing import C_TYPES


@dataclass(frozen=True, slots=True)
class ReferenceText:
    """The reference of a problem as text. Operands are in the operation's order."""

    c: str  # static double NAME(void *const *arrays, int64_t place), after arrays.h; operands are the first arrays
    python: str  # def reference(operand, ...): the output in float64, of numbers as `decoded` makes them; in NumPy
    work: float  # multiply-adds of one element in C
    tolerance: float  # the largest error of an output, relative to the largest number of the reference


_VALUES = {"bf16": "from_bf16", "fp16": "from_fp16"}  # functions of arrays.h: stored numbers in double
_CONV2D = """\
    const int64_t image = {image}, channel = {channel}, row = {row}, column = {column}, group = channel / {kg};
    double sum = {bias};
    for (int64_t c = 0; c < {cg}; c++)
    for (int64_t r = 0; r < {r}; r++) {{
        const int64_t line = row * {stride_h} + r * {dilation_h} - {pad_h};
        if (line < 0 || line >= {h})
            continue;
        for (int64_t s = 0; s < {s}; s++) {{
            const int64_t at = column * {stride_w} + s * {dilation_w} - {pad_w};
            if (at >= 0 && at < {w})
                sum += {x}(x[{x_place}]) * {weights}(weights[((channel * {cg} + c) * {r} + r) * {s} + s]);
        }}
    }}
"""

_GEMM = """\
    const int64_t row = place / {n}, column = place % {n};
    double sum = {bias};
    for (int64_t i = 0; i < {k}; i++)
        sum += {x}(x[{x_place}]) * {weights}(weights[{weights_place}]);
"""

_ATTENTION = """\
    const int64_t number = place % {value_dim}, line = place / {value_dim};
    const int64_t outer = line / {inner} % {outer}, inner = line % {inner}, image = line / {inner} / {outer};
    const int64_t query = {query}, head = {head}, shared = head / {group};
    const int64_t seen = {causal} && query + 1 < {kv_len} ? query + 1 : {kv_len};
    double largest = -INFINITY, weight = 0, sum = 0;
    for (int turn = 0; turn < 2; turn++)
    for (int64_t key = 0; key < seen; key++) {{
        double score = 0;
        for (int64_t i = 0; i < {head_dim}; i++)
            score += {q}(q[{q_place}]) * {k}(k[{k_place}]);
        score = score / sqrt({head_dim}.0){mask};
        if (!turn) {{
            largest = score > largest ? score : largest;
        }} else {{
            weight += exp(score - largest);
            sum += exp(score - largest) * {v}(v[{v_place}]);
        }}
    }}
    sum /= weight;
"""

_CONV2D_PYTHON = """\
def reference(x, weights, bias=None):
    x = {x}.astype(np.float64)
    x = np.pad(x, ((0, 0), (0, 0), ({pad_h}, {pad_h}), ({pad_w}, {pad_w})))
    filters = weights.astype(np.float64).reshape({groups}, {kg}, {cg}, {r}, {s})
    y = np.zeros(({n}, {groups}, {kg}, {out_h} * {out_w}))
    for r in range({r}):
        for s in range({s}):
            top, left = r * {dilation_h}, s * {dilation_w}
            taps = x[:, :, top:top + ({out_h} - 1) * {stride_h} + 1:{stride_h},
                     left:left + ({out_w} - 1) * {stride_w} + 1:{stride_w}]
            y += filters[:, :, :, r, s] @ taps.reshape({n}, {groups}, {cg}, {out_h} * {out_w})
    y = y.reshape({n}, {k}, {out_h}, {out_w})
    if bias is not None:
        y += bias.astype(np.float64)[:, None, None]
    return {y}
"""

_GEMM_PYTHON = """\
def reference(x, weights, bias=None):
    y = {x}.astype(np.float64) @ {weights}.astype(np.float64)
    if bias is not None:
        y += bias.astype(np.float64)
    return {y}
"""


_ATTENTION_PYTHON = """\
def reference(q, k, v, mask=None):
    q, k, v = (array.astype(np.float64){heads_first} for array in (q, k, v))
    k, v = (np.repeat(array, {group}, axis=1) for array in (k, v))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3]) + {mask}
    scores = np.where({hidden}, -np.inf, scores)
    weights = np.exp(scores - scores.max(axis=3, keepdims=True))
    y = weights @ v / weights.sum(axis=3, keepdims=True)
    return np.ascontiguousarray(y{heads_first})
"""


def reference_text(problem: Problem, types: Mapping[str, str], name: str) -> ReferenceText:
    """The reference of a problem; in C it has this name. `types` are the element types of its operands, in their order.

    Raises MisuseError if the problem's operation has no reference in text.
    """
    if problem.type not in _REFERENCES or problem.names().get("direction", "forward") != "forward":
        raise MisuseError(f"{problem.type} has no reference that is written as text")
    values = {operand: _VALUES.get(dtype, "(double)") for operand, dtype in types.items()}
    body, python, work = _REFERENCES[problem.type](problem, values)
    operands = "".join(f"    const {C_TYPES[dtype]} *{operand} = arrays[{number}];\n"
                       for number, (operand, dtype) in enumerate(types.items()))
    relu = "sum > 0 ? sum : 0" if problem.names().get("activation") == "relu" else "sum"
    return ReferenceText(f"static double {name}(void *const *arrays, int64_t place)\n{{\n{operands}{body}"
                         f"    return {relu};\n}}\n", python, work, allowed_error(problem))


Values = Mapping[str, str]  # operand -> the function that reads its numbers


def _conv2d(problem: Problem, values: Values) -> tuple[str, str, float]:
    names = {name: value for name, value in problem.names().items() if isinstance(value, int)}
    last = problem["layout"] == "NHWC"
    k, out_h, out_w, c, h, w = (names[name] for name in ("k", "out_h", "out_w", "c", "h", "w"))
    names |= {"kg": names["k_per_group"], "cg": names["c_per_group"]}
    if last:
        places = {"channel": f"place % {k}", "column": f"place / {k} % {out_w}",
                  "row": f"place / {k * out_w} % {out_h}", "image": f"place / {k * out_w * out_h}",
                  "x_place": f"((image * {h} + line) * {w} + at) * {c} + group * {names['cg']} + c"}
    else:
        places = {"column": f"place % {out_w}", "row": f"place / {out_w} % {out_h}",
                  "channel": f"place / {out_w * out_h} % {k}", "image": f"place / {out_w * out_h * k}",
                  "x_place": f"((image * {c} + group * {names['cg']} + c) * {h} + line) * {w} + at"}
    body = _CONV2D.format(**{**names, **values, **places, "bias": _bias(values, "channel")})
    relu = "np.maximum(y, 0)" if problem["activation"] == "relu" else "y"
    python = _CONV2D_PYTHON.format(**{**names, "x": "x.transpose(0, 3, 1, 2)" if last else "x",
                                      "y": f"{relu}.transpose(0, 2, 3, 1)" if last else relu})
    return body, python, float(names["cg"] * names["r"] * names["s"])


def _gemm(problem: Problem, values: Values) -> tuple[str, str, float]:
    m, n, k = (problem.size(name) for name in ("m", "n", "k"))
    flipped_a, flipped_b = problem["trans_a"] == "yes", problem["trans_b"] == "yes"
    body = _GEMM.format(**{**values, "n": n, "k": k, "bias": _bias(values, "column"),
                           "x_place": f"i * {m} + row" if flipped_a else f"row * {k} + i",
                           "weights_place": f"column * {k} + i" if flipped_b else f"i * {n} + column"})
    python = _GEMM_PYTHON.format(x="x.T" if flipped_a else "x", weights="weights.T" if flipped_b else "weights",
                                 y="np.maximum(y, 0)" if problem["activation"] == "relu" else "y")
    return body, python, float(k)


def _attention(problem: Problem, values: Values) -> tuple[str, str, float]:
    names = {name: value for name, value in problem.names().items() if isinstance(value, int)}
    heads, shared, dim, q_len, kv_len, value_dim = (
        names[name] for name in ("heads", "kv_heads", "head_dim", "q_len", "kv_len", "value_dim"))
    if problem["layout"] == "heads":
        places = {"outer": heads, "inner": q_len, "query": "inner", "head": "outer",
                  "q_place": f"((image * {heads} + head) * {q_len} + query) * {dim} + i",
                  "k_place": f"((image * {shared} + shared) * {kv_len} + key) * {dim} + i",
                  "v_place": f"((image * {shared} + shared) * {kv_len} + key) * {value_dim} + number"}
    else:
        places = {"outer": q_len, "inner": heads, "query": "outer", "head": "inner",
                  "q_place": f"((image * {q_len} + query) * {heads} + head) * {dim} + i",
                  "k_place": f"((image * {kv_len} + key) * {shared} + shared) * {dim} + i",
                  "v_place": f"((image * {kv_len} + key) * {shared} + shared) * {value_dim} + number"}
    rows = {"keys": "image", "scores": f"(head * {q_len} + query)"}
    mask = f" + {values['mask']}(mask[{rows[str(problem['mask'])]} * {kv_len} + key])" if "mask" in values else ""
    body = _ATTENTION.format(**{**names, **values, **places, "causal": int(problem["causal"] == "yes"),
                                "mask": mask})
    heads_first = ".transpose(0, 2, 1, 3)" if problem["layout"] == "tokens" else ""
    python = _ATTENTION_PYTHON.format(
        group=names["group"], heads_first=heads_first,
        mask={"none": "0", "keys": "mask[:, None, None]", "scores": "mask"}[str(problem["mask"])],
        hidden=f"~np.tri({q_len}, {kv_len}, dtype=bool)" if problem["causal"] == "yes" else "False")
    return body, python, float(2 * kv_len * dim)


def _bias(values: Values, index: str) -> str:
    """The number at which a sum begins."""
    return f"{values['bias']}(bias[{index}])" if "bias" in values else "0"


_REFERENCES: Mapping[str, Callable[[Problem, Values], tuple[str, str, float]]] = {
    "conv2d": _conv2d, "gemm": _gemm, "attention": _attention}
