"""The network and the inputs of a label translator as tables of C."""

from __future__ import annotations

import numpy as np

from ..labels.inputs import CODE, FACTS, HELPERS, MAGNITUDES, NUMBERS, PARSED, SHARES, SIZES, TOKENS, WORDS
from ..labels.numpy_translator import target_biases, target_vectors
from ..sequence.vocabulary import Vocabulary
from ..translator.dimensions import Dimensions
from ..translator.numpy_layers import Linear, Tensors
from ..translator.rows import centred
from .library import CLibrary
from .names import RATE_FACTS, NameTable
from .times_tables import network_tables
from .weights import Weights, floats, whole_numbers

OPERATION = "convnd"  # the only operation of label models


def label_tables(size: Dimensions, tensors: Tensors, vocabulary: Vocabulary) -> Weights:
    """Declare all weights of a label translator."""
    weights = network_tables(size, tensors, "decoder.{}.cross.pair")
    initial, begin = [], 0
    for number, sizes in enumerate(SIZES.values()):
        rows = tensors["reader.number"][begin:begin + len(sizes)].reshape(-1, size.width)
        initial.append(weights.initial(f"sq_size_weights_{number}", Linear(rows, np.zeros(size.width, np.float32)),
                                       bias=False))
        begin += len(sizes)
    weights.lines.append("static const sq_linear sq_size_weights[] = {\n    " + ",\n    ".join(initial) + "\n};")
    weights.linear("sq_work_weights", Linear.of(tensors, "reader.work"))
    weights.linear("sq_reader_mix", Linear.of(tensors, "reader.mix"))
    weights.table("sq_token_rows", tensors["reader.token"])
    weights.table("sq_word_rows", tensors["reader.word.weight"])
    weights.table("sq_input_rows", centred(target_vectors(tensors, "asked", vocabulary)))
    answered = target_vectors(tensors, "answered", vocabulary)
    weights.table("sq_target_rows", answered * tensors["decoded.weight"])
    weights.lines.append(floats("sq_target_bias", target_biases(answered, tensors)))
    return weights


class LabelInputs:
    """The sizes, magnitudes and words that a label translator reads."""

    def __init__(self, library: CLibrary) -> None:
        self._library = library
        self._table: NameTable = library.works[OPERATION].table.copy()
        self._lines: list[str] = []
        features = library.works[OPERATION].operation.by_name
        for name in dict.fromkeys((*(name for name, _ in HELPERS), *NUMBERS, *MAGNITUDES)):
            if name not in features:
                self._evaluate(name)
        self.slots = self._table.slots

    def _evaluate(self, name: str) -> None:
        """Write the statements for a size; it is known if all names in its expression are."""
        expression = PARSED[name]
        known = self._table.known(expression.names)
        old = self._table.names.pop(name, None), self._table.number.pop(name, None)
        if name in expression.names:  # a size of its own former value
            assert old[0] is not None
            assert old[1] is not None
            self._table.names[name], self._table.number[name] = old[0], old[1]
        statements = self._table.assign(name, expression)
        self._lines += [f"holds = {known};", "if (holds) {", *(f"    {line}" for line in statements), "}",
                        f"s->known[{self._table.number[name]}] = (unsigned char)holds;"]

    def sizes(self) -> dict[str, int]:
        """The sizes that C code needs as constants."""
        return {"POSITIONS": len(TOKENS), "SIZED": len(SIZES), "SIZE_CODE": CODE, "MAGNITUDES": len(MAGNITUDES),
                "FACTS": len(FACTS), "SHARES": len(SHARES), "WORDS": len(WORDS) + 1,
                "MOST_SIZES": max(map(len, SIZES.values()))}

    def text(self) -> str:
        """The function that evaluates the sizes, and the tables of their slots."""
        table, words = self._table, self._library.words
        facts = [f"device.{name}" if name in RATE_FACTS else name for name in FACTS]
        pairs = []
        for fact, name in enumerate((*WORDS, "architecture")):
            for number, text in enumerate(self._library.vocabulary.words):
                source, equals, word = text.partition("=")
                if equals and source == name:
                    pairs.append(f"{{{fact}, {words.number(word)}, {number}}}")
        slots = [table.number[name] for name in (*WORDS, "architecture")]
        return "\n\n".join([
            "\n".join(["static void sq_evaluate(sq_state *s) {", "    int holds;",
                       *(f"    {line}" for line in self._lines), "}"]),
            self._facts("sq_sizes", NUMBERS), self._facts("sq_magnitudes", tuple(MAGNITUDES)),
            self._facts("sq_label_facts", facts),
            whole_numbers("int", "sq_size_counts", [len(sizes) for sizes in SIZES.values()]),
            whole_numbers("int", "sq_shares", [list(MAGNITUDES).index(name) for name in SHARES]),
            whole_numbers("int", "sq_word_slots", slots),
            f"static const sq_word_pair sq_source_words[] = {{{', '.join([*pairs, '{-1, 0, 0}'])}}};"])

    def _facts(self, name: str, listed: tuple[str, ...] | list[str]) -> str:
        rows = ", ".join(f"{{0, {int(self._table.names[fact].kind == 'd')}, {self._table.number[fact]}}}"
                         for fact in listed)
        return f"static const sq_fact {name}[] = {{{rows}}};"
