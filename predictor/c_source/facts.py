"""The source sentence of a problem on a device as tables of C (see `seqtune.predictor.sequence.source_facts`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from seqtune.tuner.cost_models.machine_ratios import CACHES, RATIOS, TENSORS

from ..sequence.source_facts import RATIO_NAMES
from ..sequence.vocabulary import UNKNOWN
from .library import CLibrary
from .names import NUMBER_FACTS, RATE_FACTS, WORD_FACTS, NameTable

NUMBER, RATE, WORD, FIXED, RATIO, WORK_GROUP, LOCAL = range(7)  # kinds of facts in C
_SHORT = ("threads", "compute_units", "vector_floats", "vector_registers", "local_memory", "max_work_group")


class FactTables:
    """The facts of each operation's problems, and their possible words."""

    def __init__(self, library: CLibrary) -> None:
        self._library, self._vocabulary = library, library.vocabulary
        self._name = {name: index for index, name in enumerate(self._vocabulary.names)}
        self._pairs: list[tuple[int, int, int]] = []

    def positions(self) -> int:
        """The number of positions of the longest source sentence."""
        return max(len(self._facts(name)) for name in self._library.works)

    def text(self) -> str:
        """The tables, and the function that computes machine ratios."""
        lines = []
        for name in self._library.works:
            facts = ", ".join(f"{{{index}, {kind}, {slot}}}" for index, kind, slot in self._facts(name))
            lines.append(f"static const sq_fact sq_facts_{name}[] = {{{facts}, {{-1, 0, 0}}}};")
        tables = ", ".join(f"sq_facts_{name}" for name in self._library.works)
        lines.append(f"static const sq_fact *const sq_facts[] = {{{tables}}};")
        pairs = ", ".join(f"{{{fact}, {word}, {number}}}" for fact, word, number in dict.fromkeys(self._pairs))
        lines.append(f"static const sq_word_pair sq_source_words[] = {{{pairs + ', ' if pairs else ''}"
                     "{-1, 0, 0}};")
        rows = [f"    {{{', '.join(str(slot) for slot in self._quantities(name)) or '-1'}}}"
                for name in self._library.works]
        size = max(1, len(self._vocabulary.quantities))
        lines.append(f"static const int sq_quantity_slots[][{size}] = {{\n" + ",\n".join(rows) + "\n};")
        lines.append(_RATIO.format(**{f"{name}_slot": self._library.device.number[f"device.{name}"]
                                      for name in RATE_FACTS},
                                   **{f"{name}_slot": self._library.device.number[name] for name in NUMBER_FACTS},
                                   tensors=len(TENSORS) * len(CACHES), caches=len(CACHES)))
        return "\n\n".join(lines)

    def _facts(self, operation: str) -> list[tuple[int, int, int]]:
        """The index of the name, the kind and the slot of each fact."""
        work = self._library.works[operation]
        table, facts = work.table, [(self._index("type"), FIXED, self._word("type", operation))]
        for name in work.listed:
            kind = table.names[name].kind
            index = self._index(f"{operation}.{name}")
            facts.append((index, {"i": NUMBER, "d": RATE, "w": WORD}[kind], table.number[name]))
            if kind == "w":
                self._add_words(index, name)
        return facts + self._device_facts(table) + self._ratios()

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
        return self._name.get(name, UNKNOWN)

    def _word(self, name: str, word: str) -> int:
        text = f"{name}={word}"
        return self._vocabulary.words.index(text) if text in self._vocabulary.words else UNKNOWN

    def _add_words(self, index: int, name: str) -> None:
        """Remember which words of a fact the source vocabulary has."""
        for number, text in enumerate(self._vocabulary.words):
            fact, equals, word = text.partition("=")
            if equals and fact == name:
                self._pairs.append((index, self._library.words.number(word), number))

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
