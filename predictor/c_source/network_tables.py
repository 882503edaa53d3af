"""The network of a translator as tables of C."""

from __future__ import annotations

import math

import numpy as np

from ..translator.numpy_layers import Dimensions, Linear, NumpyLayer, Tensors
from ..translator.rows import Floats, centred, gelu
from ..translator.word_vectors import RESOLVED_SIZE, FixedWords, described_arrays
from .code_maps import ORDER
from .facts import FactTables
from .library import CLibrary
from .weights import Weights, floats, whole_numbers


def network_tables(size: Dimensions, tensors: Tensors, library: CLibrary, facts: FactTables) -> Weights:
    """Declare all weights of a translator and of its judge, if it has one. Words that nothing needs are left out."""
    weights = Weights()
    weights.layers("sq_encoder", [NumpyLayer(tensors, f"encoder.{number}", size.heads, False)
                                  for number in range(size.layers)], False)
    weights.layers("sq_decoder", [NumpyLayer(tensors, f"decoder.{number}", size.heads, True)
                                  for number in range(size.depth)], True)
    initial = [weights.initial(f"sq_pairs_{number}", Linear.of(tensors, f"decoder.{number}.cross.pair").after(
        tensors, "encoded")) for number in range(size.depth)]
    weights.lines.append("static const sq_linear sq_pairs[] = {\n    " + ",\n    ".join(initial) + "\n};")
    weights.lines.append(floats("sq_positions", centred(tensors["position.weight"])))
    weights.table("sq_name_rows", tensors["source.name.weight"][list(facts.names)])
    weights.table("sq_word_rows", tensors["source.word.weight"][list(facts.words)])
    if size.facts:
        weights.maps("sq_maps", facts.maps(tensors["source.maps"]))
        weights.lines.append(whole_numbers("int", "sq_code_order", ORDER))
    else:
        weights.linear("sq_source_code", Linear.of(tensors, "source.code"))
    weights.linear("sq_source_mix", Linear.of(tensors, "source.mix"))
    if size.fixed_words:
        _fixed_words(weights, tensors, library)
    else:
        _target_words(weights, tensors, library)
        _resolved_words(weights, tensors, size)
    if size.judge:
        _judge(weights, tensors, size)
    return weights


def _fixed_words(weights: Weights, tensors: Tensors, library: CLibrary) -> None:
    """Declare the tables with which the decoder reads a fixed target word and scores it after a state."""
    fixed, words = FixedWords(tensors, library.vocabulary), list(library.targets)
    weights.table("sq_read_rows", fixed.read[words])
    weights.table("sq_answer_rows", fixed.answers[words])
    weights.lines.append(floats("sq_answer_bias", fixed.bias[words]))


def _target_words(weights: Weights, tensors: Tensors, library: CLibrary) -> None:
    """The parts of the target words' vectors that no problem changes (see `WordVectors`)."""
    described, words = described_arrays(library.vocabulary), list(library.targets)
    group = tensors["target.group.weight"][described["target.groups"]]
    inputs = Linear.of(tensors, "target.code")(described["target.codes"]) + group
    mix = Linear.of(tensors, "target.mix")
    base: Floats = tensors["target.word.weight"] + group
    numeric = described["target.values"] > 0
    weights.table("sq_base_rows", np.where(numeric[:, None], base, base + mix(gelu(inputs)))[words])
    weights.table("sq_input_rows", inputs[words])
    weights.lines.append(floats("sq_target_values", described["target.values"][words]))
    fit = np.ascontiguousarray(tensors["target.fit.weight"].T)
    weights.linear("sq_fits", Linear(fit, np.zeros(fit.shape[1], np.float32)), bias=False, keep=True)
    weights.linear("sq_target_mix", mix, keep=True)


def _resolved_words(weights: Weights, tensors: Tensors, size: Dimensions) -> None:
    """Declare the maps that add resolved quantities to the vectors of words and score words after a state."""
    scale = 1 / math.sqrt(size.width)
    weights.table("sq_quantity_rows", tensors["settled.quantity"].reshape(-1, size.width))
    weights.linear("sq_read_resolved", Linear.of(tensors, "settled.read"), keep=True)
    outer = Linear.of(tensors, "settled.answer.2")
    inward = Linear(np.ascontiguousarray(outer.weight.T), np.zeros(size.hidden, np.float32)).times(scale)
    weights.linear("sq_ask", Linear.of(tensors, "settled.ask").joined(inward).after(tensors, "decoded"),
                   keep=True)
    weights.linear("sq_answer", Linear.of(tensors, "settled.answer.0"), keep=True)
    weights.lines += [floats("sq_state_gain", tensors["decoded.weight"]),
                      floats("sq_state_offset", tensors["decoded.bias"] * np.float32(scale))]


def _judge(weights: Weights, tensors: Tensors, size: Dimensions) -> None:
    quantity = Linear.of(tensors, "judge.quantity")
    assert len(quantity.weight) == size.derived * RESOLVED_SIZE
    weights.table("sq_judge_rows", quantity.weight)
    words = np.ascontiguousarray(tensors["judge.words.weight"].T)
    weights.linear("sq_judge_words", Linear(words, np.zeros(words.shape[1], np.float32)), bias=False)
    for name in ("problem", "inner", "outer"):
        weights.linear(f"sq_judge_{name}", Linear.of(tensors, f"judge.{name}"))
    weights.lines += [floats("sq_judge_bias", quantity.bias),
                      floats("sq_judge_slowness", Linear.of(tensors, "judge.slowness").weight[:, 0]),
                      floats("sq_encoded_gain", tensors["encoded.weight"] * np.float32(math.sqrt(size.width))),
                      floats("sq_encoded_offset", tensors["encoded.bias"])]
