"""fused_moe: one matrix product of a mixture-of-experts layer, as vLLM and SGLang serve it; nothing here runs it."""

from __future__ import annotations

from ..expression import Expression
from .feature import Feature
from .operation import Operation, ProblemView

# A share of top_k / all experts chooses each expert for a token, so an expert is idle for all tokens with the chance
# (1 - share) ** tokens. Expressions have exponents up to 64: the power is taken in two steps, which is exact for up to
# 3600 tokens; beyond that no expert is idle. The bounds 0, 1 and 60 matter only where a feature is unknown.
_IDLE = ("(max(0, min(1, 1 - top_k / (experts * expert_parallel))) ** max(1, min(tokens, 60)))"
         " ** max(1, min(60, tokens / 60))")


class FusedMoE(Operation):
    """One of the two grouped matrix products of a layer with experts; each token goes to `top_k` of them.

    The tokens' rows are sorted by expert and padded to whole blocks, so the work depends on how many rows each expert
    gets. The derived sizes are expectations for routing that is uniform and independent.
    """

    name = "fused_moe"
    meaning = "matrix product of a mixture-of-experts layer: each token's row times the weights of its experts"
    example = "fused_moe tokens=64 experts=128 top_k=8 hidden=2048 intermediate=768"
    features = (
        Feature("tokens", "rows of the input, before each is repeated for its experts", required=True),
        Feature("experts", "experts whose weights are on this GPU", required=True, high=1 << 14),
        Feature("top_k", "experts that each token goes to", required=True, high=1 << 10),
        Feature("hidden", "width of the model", required=True),
        Feature("intermediate", "width inside an expert on this GPU, after tensor parallelism", required=True),
        Feature("half", "the product: up (to gate and up together) or down (back to the model's width)", "up",
                choices=("up", "down")),
        Feature("dtype", "element types: weights and activations, or w and a with their bits", "bf16",
                choices=("bf16", "fp16", "fp8_w8a8", "int8_w8a8", "int8_w8a16", "int4_w4a16")),
        Feature("scale_n", "outputs that share a scale of the weights; 0: no blocks", 0, low=0),
        Feature("scale_k", "inputs that share a scale of the weights; 0: no blocks", 0, low=0),
        Feature("per_channel", "each output has a scale of its own", "no", choices=("no", "yes")),
        Feature("expert_parallel", "GPUs among which the experts are divided", 1, high=1 << 14),
    )
    derived = (
        ("columns", Expression("2 * intermediate if half == 'up' else hidden")),
        ("depth", Expression("hidden if half == 'up' else intermediate")),
        ("routed", Expression("tokens * top_k / expert_parallel")),  # rows that arrive here
        ("active", Expression(f"experts * (1 - {_IDLE})")),  # experts here with at least one row
        ("expert_rows", Expression("routed / active")),  # rows of an active expert
        ("flop", Expression("2 * tokens * top_k * columns * depth // expert_parallel")),
    )
    rules = (
        (Expression("top_k <= experts * expert_parallel"), "a token cannot go to more experts than there are"),
        (Expression("(scale_n > 0) == (scale_k > 0)"), "blocks of scales have both sizes or neither"),
    )
    words = ("moe",)
    hints = frozenset(("experts",))
    sizes = ("tokens", "hidden", "intermediate")
    quantities = ("tokens", "experts", "columns", "depth")
    tiled_sizes = ("columns", "depth")

    def kind(self, problem: ProblemView) -> tuple[object, ...]:
        """The product, the element types and the scales."""
        return tuple(problem[name] for name in ("half", "dtype", "scale_n", "scale_k", "per_channel"))


OPERATION = FusedMoE()
