"""attention: y = softmax(scale q k^T + mask) v for every head, as transformers compute it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..expression import Expression
from .draws import choose, jitter
from .feature import DTYPE, TOLERANCE, Feature, Value, bounded
from .operation import Operands, Operation, ProblemView, Shape

_LENGTHS = (16, 32, 49, 64, 77, 128, 196, 197, 256, 257, 384, 512, 577, 1024, 1500)
ELEMENTS = {"q or y": "n * heads * q_len * max(head_dim, value_dim)",
            "k or v": "n * heads * kv_len * max(head_dim, value_dim)",
            "the mask": "heads * q_len * kv_len if mask == 'scores' else n * kv_len"}
_CACHED = (16, 64, 128, 256, 512, 1000, 1024, 1500, 2048, 4096)  # keys of earlier tokens


@dataclass(frozen=True, slots=True)
class _Model:
    """A kind of network that problems are drawn like."""

    heads: tuple[int, ...]  # heads of k and v
    dims: tuple[int, ...]
    n: tuple[int, ...] = (1, 1, 1, 2, 4, 8)
    group: int = 1
    causal: bool = False
    mask: str = "none"
    length: int = 0  # 0: any


_MODELS = (
    _Model(heads=(3, 6, 12, 16), dims=(64,), mask="keys"),  # BERT, ViT
    _Model(heads=(12, 16, 20), dims=(64,), causal=True),  # GPT-2
    _Model(heads=(6, 8, 12), dims=(64,), mask="scores"),  # T5: a bias of relative positions
    _Model(heads=(6, 8, 12), dims=(64,), length=1500, n=(1,)),  # Whisper
    _Model(heads=(3, 6, 12, 24), dims=(32,), mask="scores", length=49, n=(1, 4, 16, 64)),  # Swin: windows of 7x7
    _Model(heads=(2, 4, 8), dims=(64, 128), group=4, causal=True),  # Llama: grouped queries
)


class DotProductAttention(Operation):
    """Scaled dot-product attention; `group` query heads share a head of k and v (grouped queries)."""

    name = "attention"
    meaning = "attention y = softmax(q k^T / sqrt(head_dim) + mask) v of every head"
    example = "attention heads=12 q_len=128 head_dim=64"
    features = (
        Feature("n", "sequences (batch)", 1),
        Feature("heads", "heads of q", required=True),
        Feature("group", "neighbouring heads of q that share a head of k and v", 1),
        Feature("q_len", "queries of a sequence", required=True),
        Feature("kv_len", "keys and values of a sequence", required=True),
        Feature("head_dim", "numbers in a query and in a key", required=True),
        Feature("value_dim", "numbers in a value", required=True),
        Feature("causal", "query i sees the keys 0 to i only", "no", choices=("no", "yes")),
        Feature("mask", "numbers added to the scores: none, one for each key of a sequence (n, kv_len), or one for "
                        "each score of a head (heads, q_len, kv_len)", "none", choices=("none", "keys", "scores")),
        Feature("layout", "order of q, k, v and y: (n, heads, length, dim) or (n, length, heads, dim)", "heads",
                choices=("heads", "tokens")),
        DTYPE,
        TOLERANCE,
    )
    derived = (
        ("kv_heads", Expression("heads // group")),
        ("diagonal", Expression("min(q_len, kv_len)")),
        ("pairs", Expression("diagonal * (diagonal + 1) // 2 + (q_len - diagonal) * kv_len if causal == 'yes' "
                             "else q_len * kv_len")),  # pairs of a query and a key that it sees, in a head
        ("flop", Expression("2 * n * heads * pairs * (head_dim + value_dim)")),
    )
    rules = (
        (Expression("heads % group == 0"), "heads must be a multiple of group"),
        *bounded(ELEMENTS),
    )
    elements = ELEMENTS
    words = ("sdpa",)
    hints = frozenset(("q_len", "heads"))
    repeated: Mapping[str, str] = {"kv_len": "q_len", "value_dim": "head_dim"}
    sizes = ("n", "heads", "q_len", "kv_len", "head_dim", "value_dim")
    quantities = ("n", "heads", "q_len", "kv_len", "head_dim", "value_dim")
    tiled_sizes = ("q_len", "kv_len", "value_dim")
    least_flop, most_flop = 1e5, 2e9

    def kind(self, problem: ProblemView) -> tuple[object, ...]:
        """Sharing of heads, visibility, mask, layout and element type."""
        return tuple(problem[name] for name in ("group", "causal", "mask", "layout", "dtype"))

    def operands(self, problem: ProblemView) -> dict[str, Shape]:
        """Shapes of q, k and v in the problem's layout, and of the mask where there is one."""
        n, heads, kv_heads = (problem.size(name) for name in ("n", "heads", "kv_heads"))
        q_len, kv_len, dim, value_dim = (problem.size(name) for name in ("q_len", "kv_len", "head_dim", "value_dim"))
        shapes = {"q": _shape(problem, n, heads, q_len, dim), "k": _shape(problem, n, kv_heads, kv_len, dim),
                  "v": _shape(problem, n, kv_heads, kv_len, value_dim)}
        masks: dict[Value, dict[str, Shape]] = {"none": {}, "keys": {"mask": (n, kv_len)},
                                                "scores": {"mask": (heads, q_len, kv_len)}}
        return {**shapes, **masks[problem["mask"]]}

    def output(self, problem: ProblemView) -> Shape:
        """The shape of y: that of q with value_dim numbers."""
        return _shape(problem, *(problem.size(name) for name in ("n", "heads", "q_len", "value_dim")))

    def reference(self, problem: ProblemView, operands: Operands) -> NDArray[np.float64]:
        """The softmax of all scores, then the sum of the values that it weights; one head at a time."""
        heads_first = (0, 1, 2, 3) if problem["layout"] == "heads" else (0, 2, 1, 3)  # these swaps undo themselves
        q, k, v = (operands[name].astype(np.float64).transpose(heads_first) for name in ("q", "k", "v"))
        y = np.empty((*q.shape[:3], v.shape[3]))
        group, mask = problem.size("group"), operands.get("mask")
        visible = np.tri(q.shape[2], k.shape[2], dtype=bool)
        for image, head in np.ndindex(*q.shape[:2]):
            scores = q[image, head] @ k[image, head // group].T / np.sqrt(q.shape[3])  # (q_len, kv_len)
            if mask is not None:
                scores = scores + mask[image if problem["mask"] == "keys" else head]
            if problem["causal"] == "yes":
                scores = np.where(visible, scores, -np.inf)
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            y[image, head] = weights @ v[image, head // group] / weights.sum(axis=1, keepdims=True)
        return np.ascontiguousarray(y.transpose(heads_first))

    def draw(self, generator: np.random.Generator) -> dict[str, Value]:
        """Draw attention like that of BERT, ViT, GPT-2, T5, Whisper, Swin or Llama, prefill or one more token."""
        model = _MODELS[int(generator.integers(len(_MODELS)))]
        decoding = model.causal and generator.random() < 0.4
        length = model.length or jitter(generator, choose(generator, _LENGTHS), 0.3)
        dim = choose(generator, model.dims)
        return {
            "n": choose(generator, model.n), "heads": choose(generator, model.heads) * model.group,
            "group": model.group, "q_len": 1 if decoding else length,
            "kv_len": jitter(generator, choose(generator, _CACHED), 0.5) if decoding else length,
            "head_dim": dim, "value_dim": dim, "causal": "yes" if model.causal and not decoding else "no",
            "mask": model.mask if generator.random() < 0.7 else "none",
            "layout": "tokens" if generator.random() < 0.7 else "heads",
        }


def _shape(problem: ProblemView, n: int, heads: int, length: int, dim: int) -> Shape:
    return (n, heads, length, dim) if problem["layout"] == "heads" else (n, length, heads, dim)


OPERATION = DotProductAttention()
