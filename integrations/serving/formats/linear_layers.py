"""Linear layers of a model as a server runs them: fused, and divided among several GPUs."""

from __future__ import annotations

from .served_model import ServedModel, part

Layers = dict[tuple[int, int], str]  # (outputs, inputs) -> the layer


def linear_layers(model: ServedModel, gpus: int) -> Layers:
    """The sizes of the layers outside the experts, after tensor parallelism, each with the first layer of that size.

    vLLM and SGLang fuse query, key and value, and gate and up. Raises MisuseError if the GPUs do not divide a size.
    """
    layers: Layers = {}
    for name, outputs, inputs in [*_attention(model, gpus), *_feed_forward(model, gpus)]:
        layers.setdefault((outputs, inputs), name)
    return layers


def _attention(model: ServedModel, gpus: int) -> list[tuple[str, int, int]]:
    if model.heads is None:
        return []
    heads = part(model.heads, gpus, "num_attention_heads")
    if model.latent_rank is not None:
        return _latent_attention(model, heads)
    width = model.head_width or model.hidden // model.heads
    shared = model.key_value_heads or model.heads
    keys = part(shared, gpus, "num_key_value_heads") if shared >= gpus else 1  # a head is copied to several GPUs
    queries = heads * (2 if model.gated_attention else 1)
    return [("query, key and value", (queries + 2 * keys) * width, model.hidden),
            ("attention's output", model.hidden, heads * width)]


def _latent_attention(model: ServedModel, heads: int) -> list[tuple[str, int, int]]:
    """DeepSeek's attention: the projections down to the latents are on every GPU, those up are divided by heads."""
    rank, rotary, plain = model.latent_rank or 0, model.rotary_width or 0, model.plain_width or 0
    value = model.value_width or plain
    layers = [("latents up to keys and values", heads * (plain + value), rank),
              ("attention's output", model.hidden, heads * value)]
    if model.query_rank is None:
        return [("query", heads * (plain + rotary), model.hidden), ("latent", rank + rotary, model.hidden), *layers]
    return [("latents", model.query_rank + rank + rotary, model.hidden),
            ("latent up to queries", heads * (plain + rotary), model.query_rank), *layers]


def _feed_forward(model: ServedModel, gpus: int) -> list[tuple[str, int, int]]:
    """Layers without experts, and the experts that every token goes to."""
    widths: list[tuple[str, int, str]] = []
    dense = model.dense_width or model.width
    if dense is not None and (not model.experts or model.first_dense or model.dense_width):
        widths.append(("feed-forward", dense, "intermediate_size"))
    if model.shared_width:
        widths.append(("shared expert", model.shared_width, "shared_expert_intermediate_size"))
    elif model.shared_experts and model.experts:
        widths.append(("shared experts", model.shared_experts * model.inside, "shared experts' width"))
    layers = []
    for name, width, field in widths:
        own = part(width, gpus, field)
        layers += [(f"{name}: gate and up", 2 * own, model.hidden), (f"{name}: down", model.hidden, own)]
    return layers
