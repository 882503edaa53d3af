"""The source sentence of a problem on a device as tables of C (see `seqtune.predictor.sequence.source_facts`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from seqtune.tuner.cost_models.machine_ratios import CACHES, RATIOS, TENSORS

from ..sequence.source_facts import RATIO_NAMES, own_facts, own_positions
from ..sequence.vocabulary import PAD, UNKNOWN
from ..translator.numpy_layers import Dimensions
from ..translator.rows import Floats
from .code_maps import ORDER, folded, rows_of_numbers
from .library import CLibrary
from .names import NUMBER_FACTS, RATE_FACTS, WORD_FACTS, NameTable

NUMBER, RATE, WORD, FIXED, RATIO, WORK_GROUP, LOCAL = range(7)  # kinds of facts in C
_KINDS = {"i": NUMBER, "d": RATE, "w": WORD}  # of values that are read as they are
_SHORT = ("threads", "compute_units", "vector_floats", "vector_registers", "local_memory", "max_work_group")


class Fact(NamedTuple):
    """A fact of a source sentence."""

    name: int  # index of its name in `FactTables.names`
    kind: int
    slot: int  # of its value; for FIXED the word, for RATIO the number of the ratio
    position: int = 0


class FactTables:
    """The facts of each operation's problems, and their possible words."""

    def __init__(self, library: CLibrary, size: Dimensions) -> None:
        self._library, self._vocabulary, self._size = library, library.vocabulary, size
        self.names: dict[int, int] = {}  # the indices of names by their numbers in the vocabulary: those of the facts
        self.words = {PAD: 0, UNKNOWN: 1}  # the same of words
        self._pairs: dict[tuple[int, int, int], None] = {}
        self.slots = library.sizes()["SLOTS"]  # those of an operation's own sentence follow
        self._statements: list[str] = []
        self._map_rows: list[int] = []  # of each fact of an own sentence
        self._facts = {name: self._own_facts(name) or self._listed_facts(name) for name in library.works}

    @property
    def positions(self) -> int:
        """The number of positions of the longest source sentence."""
        return 1 + max(facts[-1].position for facts in self._facts.values())

    def maps(self, maps: Floats) -> list[Floats]:
        """The maps (row, width) of each fact's codes in the order of code_maps, from the maps (fact, code, width)."""
        return [rows[:count] for count, rows in zip(self._map_rows, folded(maps), strict=True)]

    def text(self) -> str:
        """The tables, and the functions that compute an own sentence's facts and machine ratios."""
        lines = []
        for name, facts in self._facts.items():
            entries = ",\n    ".join(f"{{{', '.join(map(str, fact))}}}" for fact in (*facts, Fact(-1, 0, 0)))
            lines.append(f"static const sq_fact sq_facts_{name}[] = {{\n    {entries}\n}};")
        tables = ", ".join(f"sq_facts_{name}" for name in self._facts)
        lines.append(f"static const sq_fact *const sq_facts[] = {{{tables}}};")
        pairs = ", ".join(f"{{{fact}, {word}, {number}}}" for fact, word, number in self._pairs)
        lines.append(f"static const sq_word_pair sq_source_words[] = {{{pairs + ', ' if pairs else ''}"
                     "{-1, 0, 0}};")
        if not self._size.fixed_words:
            rows = [f"    {{{', '.join(str(slot) for slot in self._quantities(name)) or '-1'}}}"
                    for name in self._library.works]
            size = max(1, len(self._vocabulary.quantities))
            lines.append(f"static const int sq_quantity_slots[][{size}] = {{\n" + ",\n".join(rows) + "\n};")
        lines.append("\n".join(["static void sq_evaluate(sq_state *s) {", "    (void)s;",
                                *(f"    {line}" for line in self._statements), "}"]))
        lines.append(_RATIO.format(**{f"{name}_slot": self._library.device.number[f"device.{name}"]
                                      for name in RATE_FACTS},
                                   **{f"{name}_slot": self._library.device.number[name] for name in NUMBER_FACTS},
                                   tensors=len(TENSORS) * len(CACHES), caches=len(CACHES)))
        return "\n\n".join(lines)

    def _own_facts(self, operation: str) -> list[Fact]:
        """The facts of an operation's own sentence; none if it has no such sentence.

        Their expressions get slots and statements; a fact that is only a name needs none. A fact is known if all names
        in its expression are.
        """
        positions = own_positions(operation)
        if positions is None:
            return []
        table = self._library.works[operation].table.copy()
        for name in RATE_FACTS:
            table.names[name], table.number[name] = table.names[f"device.{name}"], table.number[f"device.{name}"]
        table.slots = self.slots
        facts: list[Fact] = []
        for (name, expression), position in zip(own_facts(operation).items(), positions.tolist(), strict=True):
            value = f"{operation}.{name}"
            if expression.text in table.names:
                value = expression.text
            else:
                known = table.known(expression.names)
                statements = table.assign(value, expression)
                slot = table.number[value]
                self._statements += [f"s->known[{slot}] = (unsigned char)({known});", f"if (s->known[{slot}]) {{",
                                     *(f"    {line}" for line in statements), "}"]
                table.names[name], table.number[name] = table.names[value], slot  # later facts may name it
            kind, index = table.names[value].kind, self._index(f"{operation}.{name}")
            facts.append(Fact(index, _KINDS[kind], table.number[value], position))
            if kind == "w":
                self._add_words(index, name)
                self._map_rows.append(1)  # the code of a word has nothing but the flag for unknown ones
            else:
                self._map_rows.append(len(ORDER) if kind == "d" else rows_of_numbers(table.names[value].bound))
        self.slots = table.slots
        return facts

    def _listed_facts(self, operation: str) -> list[Fact]:
        """The facts of a sentence in which each has a position of its own."""
        work = self._library.works[operation]
        table, facts = work.table, [(self._index("type"), FIXED, self._word("type", operation))]
        for name in work.listed:
            kind = table.names[name].kind
            index = self._index(f"{operation}.{name}")
            facts.append((index, _KINDS[kind], table.number[name]))
            if kind == "w":
                self._add_words(index, name)
        facts += self._device_facts(table) + self._ratios()
        return [Fact(*fact, position) for position, fact in enumerate(facts)]

    def _device_facts(self, table: NameTable) -> list[tuple[int, int, int]]:
        ratios = self._vocabulary.listed == "ratios"
        words = WORD_FACTS[:2] if ratios else WORD_FACTS
        special = {"local_memory": LOCAL, "max_work_group": WORK_GROUP} if ratios else {}
        facts = []
        for name in words:
            index = self._index(f"device.{name}")
            self._add_words(index, name)
            facts.append((index, WORD, table.number[name]))
        for name in (_SHORT if ratios else (*NUMBER_FACTS, *RATE_FACTS)):
            rate = name in RATE_FACTS
            facts.append((self._index(f"device.{name}"), RATE if rate else special.get(name, NUMBER),
                          table.number[f"device.{name}" if rate else name]))
        return facts

    def _ratios(self) -> list[tuple[int, int, int]]:
        return [(self._index(name), RATIO, list(RATIOS).index(RATIO_NAMES_BY[name]))
                for name in self._vocabulary.ratios]

    def _index(self, name: str) -> int:
        return self.names.setdefault(self._vocabulary.name(name), len(self.names))

    def _word(self, name: str, word: str) -> int:
        return self._word_index(self._vocabulary.word(name, word))

    def _word_index(self, number: int) -> int:
        return self.words.setdefault(number, len(self.words))

    def _add_words(self, index: int, name: str) -> None:
        """Remember which words of a fact the source vocabulary has."""
        for number, text in enumerate(self._vocabulary.words):
            fact, equals, word = text.partition("=")
            if equals and fact == name:
                self._pairs[index, self._library.words.number(word), self._word_index(number)] = None

    def _quantities(self, operation: str) -> Sequence[int]:
        """The slots of the quantities that parameters' values are compared with; -1 for other operations'."""
        work, slots = self._library.works[operation], []
        for quantity in self._vocabulary.quantities:
            group, _, name = quantity.partition(".")
            slots.append(work.table.number[name] if group == "device" or (
                group == operation and name in work.table.number) else -1)
        return slots


RATIO_NAMES_BY: Mapping[str, str] = dict(zip(RATIO_NAMES, RATIOS, strict=True))

_RATIO = """/* The ratios of a problem and a device by their numbers; -1: unknown. */
static double sq_ratio(double number, double divisor) {{
    double ratio = number < 0 || !(divisor > 0) ? -1 : number / divisor;
    return ratio >= 0 && ratio == floor(ratio) ? ratio * (1 + 0x1p-40) : ratio; /* never a whole number */
}}
static double sq_machine_ratio(const sq_state *s, int ratio) {{
    static const int caches[] = {{{l1_bytes_slot}, {l2_bytes_slot}, {l3_bytes_slot}}};
    double several = (double)(s->i[{threads_slot}] ? s->i[{threads_slot}] : s->i[{compute_units_slot}]);
    double peak = s->d[{peak_gflops_slot}], bandwidth = s->d[{bandwidth_gbs_slot}], work = s->flop, moved;
    if (several < 1) several = 1;
    if (ratio < {tensors}) {{
        double bytes = (double)s->i[caches[ratio % {caches}]];
        return sq_ratio(s->tensor[ratio / {caches}], ratio % {caches} == 2 ? bytes : bytes * several);
    }}
    switch (ratio - {tensors}) {{
    case 0:
        moved = s->tensor[0] + s->tensor[1] + s->tensor[2];
        if (s->tensor[0] < 0 || s->tensor[1] < 0 || s->tensor[2] < 0) return -1;
        if (work < 0 || !(moved > 0) || !(bandwidth > 0)) return -1;
        return sq_ratio(work / moved, peak / bandwidth);
    case 1: return sq_ratio(work, peak * 1e3);
    case 2: return sq_ratio(peak > 0 ? peak : -1, 2 * several * (double)s->i[{vector_floats_slot}]);
    default: return sq_ratio(bandwidth > 0 ? bandwidth : -1, several);
    }}
}}"""
