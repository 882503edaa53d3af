"""CWinners: the mixture of experts in C: the weights, and the table of winners, where it is small.

Each entry of the table is a string of digits in base 92: its device, the slowness that is typical of it, its point, its
words, and its configurations with their slowness. Numbers of 32 bits have five digits, so nothing is rounded.
`runtime/winners.c` reads them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp

import numpy as np
from numpy.typing import NDArray

from ..mixture.mixture import FIXED, NEAREST, Mixture, declared_default
from ..mixture.weights import BEAM, Weights
from ..mixture.winners import LIKENESS, MOST_TURNS, NEIGHBOURS, NO_KERNEL, REACH, STRANGER, WORD, Group, Winners
from ..trees.ranker import Ranker
from .header import MOST_PROPOSALS, constant
from .kernel import CKernel
from .library import CLibrary
from .processes import processes_in_c
from .trees import source
from .weights import BASE, bits, digits, floats, string_literal, whole_numbers

# Those that answer in C, in the order of `runtime/order.c`
EXPERTS = ("trees", "judge", "nearest", "fixed", "gaussian_process")
LARGEST_FLOAT = np.finfo(np.float32).max
MOST_ROWS = 10_000  # of all entries of a file: 0.3 MB
_NO_WEIGHT = -1000.0  # the logit of an expert without weight
_UNKNOWN, _OTHER = 0, 1  # the numbers of an entry's words: of an unknown one, and of one that no problem in C has
_FIRST_WORD = 2


def mixture_in_c(mixture: Mixture, kernels: Sequence[CKernel], ranker: Ranker | None) -> Mixture:
    """The part of a mixture that C can hold.

    The analytic model does not answer. A large table is left out, and the processes with it: then the weights are those
    at the usual nearness. `ranker` is the part of the trees that C can hold, whose features the processes read.
    """
    if not mixture.is_learned:
        return mixture
    names = {kernel.kernel.name for kernel in kernels}
    groups = {key: group for key, group in mixture.winners.groups.items()
              if key[1] in {kernel.kernel.operation for kernel in kernels} and names & {*group.about.kernels}}
    small = sum(group.kernel.size for group in groups.values()) <= MOST_ROWS and all(
        len(parameter.values) < BASE for kernel in kernels for parameter in kernel.kernel.parameters)
    if groups and small:
        known, unseen = (_without(weights, ("analytic",)) for weights in (mixture.weights, mixture.unseen))
        return Mixture(Winners(groups), known, unseen, processes_in_c(mixture.processes, ranker))
    alone = _without(mixture.weights, ("nearest", "fixed", "analytic", "gaussian_process"))
    usual = exp(-1.0)  # the nearness at the usual distance from a training problem to the next one
    return Mixture(weights=Weights(base={name: base + alone.slope.get(name, 0.0) * usual
                                         for name, base in alone.base.items()}))


def _without(weights: Weights, experts: Sequence[str]) -> Weights:
    return Weights(**{part: {name: logit for name, logit in getattr(weights, part).items() if name not in experts}
                      for part in ("base", "slope")})


@dataclass
class CWinners:
    """The declarations of a mixture, and the sizes that C code needs as constants."""

    lines: list[str] = field(default_factory=list)
    proposals: int = 0  # beside those of the beam
    portfolios: int = 1  # of the group that has most
    devices: int = 1
    numbers: int = 1
    beyond: bool = False  # whether the weights of other devices also count beyond the table's problems

    @classmethod
    def of(cls, mixture: Mixture, library: CLibrary) -> CWinners:
        """Write a mixture that C can hold; all words of the library's problems have numbers."""
        written = cls(beyond=mixture.has_weights_beyond)
        rows = ", ".join("{" + ", ".join(_logits(weights, part) for part in ("base", "slope")) + "}"
                         for weights in (mixture.weights, mixture.unseen))
        written.lines.append(f"static const double sq_weights[][2][{len(EXPERTS) + 1}] = {{{rows}}};")
        if mixture.is_learned:
            entries = [written._group(number, group, library)
                       for number, group in enumerate(mixture.winners.groups.values())]
            written.lines.append("static const sq_group sq_groups[] = {\n    " + ",\n    ".join(entries) + "\n};")
            written.lines += _defaults(library.kernels)
            solving = max(sum(kernel.kernel.operation == work for kernel in library.kernels) for work in library.works)
            written.proposals = min(NEAREST + FIXED + solving, MOST_PROPOSALS)  # sets of all are bits of 32
        return written

    @property
    def sizes(self) -> dict[str, int | str]:
        """The sizes that C code needs as constants, by their names without the prefix."""
        return {"WINNERS": int(bool(self.proposals)), "BEYOND": int(self.beyond), "NO_WEIGHT": str(_NO_WEIGHT),
                "PORTFOLIOS": self.portfolios, "NEIGHBOURS": NEIGHBOURS, "TURNS": MOST_TURNS, "NEAREST": NEAREST,
                "FIXED": FIXED, "DEVICES": self.devices, "NUMBERS_OF_PROBLEM": self.numbers, "REACH": str(REACH),
                "LIKENESS": str(LIKENESS), "WORD_APART": str(WORD),
                "STRANGER": repr(exp(-STRANGER / LIKENESS))}

    def _group(self, number: int, group: Group, library: CLibrary) -> str:
        """Declare the arrays of a group; the result is its initial value."""
        about, work = group.about, library.works[group.about.operation]
        self.devices = max(self.devices, len(about.devices))
        self.numbers = max(self.numbers, len(about.numbers))
        self.portfolios = max(self.portfolios, int(group.is_portfolio.sum()))
        numbers = [(work.table.number[name], source(work.table, name)) if name in work.listed
                   and work.table.names[name].kind != "w" else (-1, -1) for name in about.numbers]
        words = [work.table.number[name] if name in work.listed and work.table.names[name].kind == "w" else -1
                 for name in about.words]
        facts = [library.device.number.get(name, -1) for name in about.facts]
        between = np.stack([group.other_device_distances(row) for row in group.facts])  # (device, device)
        architectures = list(map(library.words.number, _architectures(group)))
        order = np.argsort(group.is_portfolio, kind="stable")
        spaces = {kernel.kernel.name: kernel.number for kernel in library.kernels}
        written = [_entry(group, entry, [spaces.get(name, -1) for name in about.kernels], library.words.numbers)
                   for entry in order.tolist()]
        name = f"_{number}"
        self.lines += [
            whole_numbers("int", f"sq_number_slots{name}", [slot for pair in numbers for slot in pair] or [0]),
            whole_numbers("int", f"sq_word_slots{name}", words or [0]),
            whole_numbers("int", f"sq_fact_slots{name}", facts or [0]),
            whole_numbers("int64_t", f"sq_architectures{name}", architectures),
            floats(f"sq_scale{name}", group.scale if group.scale.size else np.ones(1, np.float32)),
            floats(f"sq_deviation{name}", group.fact_scale if facts else np.ones(1, np.float32)),
            floats(f"sq_between{name}", between),
            _limits(f"sq_least{name}", group.limits[0], -LARGEST_FLOAT),
            _limits(f"sq_most{name}", group.limits[1], LARGEST_FLOAT),
            f"static const char *const sq_device_facts{name}[] = {{\n" + ",\n".join(
                string_literal(digits(bits(row), 5)) for row in group.facts) + "\n};",
            f"static const char *const sq_entries{name}[] = {{\n" + ",\n".join(written) + "\n};"]
        counts = [int((~group.is_portfolio).sum()), int(group.is_portfolio.sum()), group.kernel.shape[1],
                  group.values.shape[2], len(numbers), len(words), len(facts), len(about.devices)]
        return (f"{{{library.words.number(about.backend)}, {constant(work.operation)}, {', '.join(map(str, counts))}, "
                f"{np.float32(about.unit)!s}f, "
                + ", ".join(f"sq_{part}{name}" for part in (
                    "number_slots", "word_slots", "fact_slots", "architectures", "scale", "deviation", "between",
                    "least", "most", "device_facts", "entries")) + "}")


def _limits(name: str, limits: NDArray[np.float32], infinite: np.float32) -> str:
    """The extremes of each number; those of a number that is never known are infinite, so that none exceeds them."""
    known = np.where(np.isnan(limits), infinite, limits)
    return floats(name, known if known.size else np.zeros(1, np.float32))


def words_of(mixture: Mixture) -> list[str]:
    """The words of devices that the table of winners compares."""
    return [word for group in mixture.winners.groups.values() for word in _architectures(group)]


def _architectures(group: Group) -> list[str]:
    """The architecture of each device: the second word of its identity."""
    return [[*name.split(" "), ""][1] for name in group.about.devices]


def _entry(group: Group, entry: int, spaces: Sequence[int], words: Mapping[str, int]) -> str:
    """The digits of an entry; `spaces` are the numbers of the group's kernels in C, -1 for one that C lacks."""
    known = {zlib.crc32(word.encode()): number + _FIRST_WORD for word, number in words.items()}
    known[zlib.crc32(b"None")] = _UNKNOWN
    own = [known.get(int(word), _OTHER) for word in group.words[entry]]
    parts = [digits(np.array([group.device[entry]], np.int64), 2), digits(bits(group.typical[entry:entry + 1]), 5),
             digits(bits(group.scaled[entry]), 5), digits(np.array(own, np.int64), 3)]
    for kernel, values, slowness in zip(group.kernel[entry].tolist(), group.values[entry], group.slowness[entry],
                                        strict=True):
        space = -1 if kernel == NO_KERNEL else spaces[kernel]
        parts += [digits(np.array([space + 1], np.int64), 2), digits(values.astype(np.int64), 1),
                  digits(bits(np.array([slowness])), 5)]
    return string_literal(np.concatenate([part.ravel() for part in parts]))


def _logits(weights: Weights, part: str) -> str:
    """The logits of the experts and of the beam."""
    known: Mapping[str, float] = getattr(weights, part)
    missing = _NO_WEIGHT if part == "base" else 0.0
    return "{" + ", ".join(repr(float(known.get(name, missing))) for name in (*EXPERTS, BEAM)) + "}"


def _defaults(kernels: Iterable[CKernel]) -> list[str]:
    """The safe default of each kernel, as it is declared; 0 for a kernel without one."""
    lines, names = [], []
    for kernel in kernels:
        values, name = declared_default(kernel.kernel), f"sq_default_{kernel.number}"
        names.append("0" if values is None else name)
        if values is not None:
            lines.append(whole_numbers("uint16_t", name, values[0].tolist()))
    return [*lines, f"static const uint16_t *const sq_defaults[] = {{{', '.join(names)}}};"]
