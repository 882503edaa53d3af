"""CLibrary: the kernels, operations and devices of an export, as functions and tables of C."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from seqtune.errors import MisuseError
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.operations.operation import Operation
from seqtune.kernels.operations.table import operation

from ..sequence.source_facts import own_facts
from ..sequence.vocabulary import BEGIN, Vocabulary
from .expression import Words
from .header import constant
from .kernel import CKernel, has_fractions
from .names import NUMBER_FACTS, NameTable, OperationNames, device_names, literal
from .reading import device_reader, operation_reader, problem_reader
from .weights import whole_numbers

CHECKS = 50_000_000  # of constraints in one prediction: about a second


@dataclass
class CLibrary:
    """Everything of an export that the network does not need."""

    vocabulary: Vocabulary
    words: Words
    extras: tuple[str, ...]
    device: NameTable
    works: Mapping[str, OperationNames]
    kernels: Sequence[CKernel]

    @classmethod
    def of(cls, vocabulary: Vocabulary, kernels: Sequence[Kernel]) -> CLibrary:
        """Write the kernels, which the vocabulary knows. Raises MisuseError, ExpressionError."""
        words = Words()
        words.number("")  # the word of an empty device
        operations = [operation(name) for name in dict.fromkeys(kernel.operation for kernel in kernels)]
        for work in operations:
            if work.is_open:
                raise MisuseError(f"problems of {work.name} have any features; in C they must be declared")
        extras = _extras(vocabulary, kernels, operations)
        device = device_names(words, extras)
        works = {work.name: OperationNames.of(work, device) for work in operations}
        written = [CKernel.of(kernel, number, works[kernel.operation], vocabulary.derived)
                   for number, kernel in enumerate(kernels)]
        return cls(vocabulary, words, extras, device, works, written)

    @property
    def operations(self) -> list[Operation]:
        """The operations, in the order of their numbers."""
        return [work.operation for work in self.works.values()]

    def sizes(self) -> dict[str, int]:
        """The sizes that C code needs as constants, by their names without the prefix."""
        fresh = [sum(resolved == column for resolved, _ in kernel.quantities.values())
                 for kernel in self.kernels for column in range(-1, len(kernel.kernel.parameters))]
        values = [len(parameter.values) for kernel in self.kernels for parameter in kernel.kernel.parameters]
        return {
            "SLOTS": max(table.slots for table in (self.device, *(work.table for work in self.works.values()),
                                                   *(kernel.table for kernel in self.kernels))),
            "FRACTIONS": int(self.has_fractions), "PARAMETERS": self.parameters,
            "KERNELS": len(self.kernels), "FRESH": max(fresh, default=0),
            "MOST_VALUES": max([*values, 1]), "LONGEST": self.parameters + 1, "MOST_CHECKS": CHECKS,
            "MOST_QUANTITIES": max([1, *(len(kernel.quantities) for kernel in self.kernels)]),
            "THREADS": self.device.number["threads"], "WORK_GROUP": self.device.number["max_work_group"],
            "COMPUTE_UNITS": self.device.number["compute_units"], "BACKEND": self.device.number["backend"],
            "ARCHITECTURE": self.device.number["architecture"]}

    @property
    def read(self) -> frozenset[str]:
        """The names that constraints and conditions of the kernels read."""
        return frozenset(name for kernel in self.kernels for name in (
            *kernel.kernel.names_read(), *(name for condition in kernel.kernel.solves
                                           for name in condition.expression.names)))

    @property
    def parameters(self) -> int:
        """The number of parameters of the kernel that has most; 1 at least."""
        return max([1, *(len(kernel.kernel.parameters) for kernel in self.kernels)])

    @property
    def has_fractions(self) -> bool:
        """Whether a parameter of some kernel has fractions."""
        return any(has_fractions(parameter) for kernel in self.kernels for parameter in kernel.kernel.parameters)

    @cached_property
    def targets(self) -> Mapping[int, int]:
        """The indices of target words by their numbers in the vocabulary: <begin> and those of the kernels."""
        words = {BEGIN: 0}
        for kernel in self.kernels:
            name = kernel.kernel.name
            for word in (self.vocabulary.kernel(name), *(
                    word for values in self.vocabulary.value_words(name) for word in values.tolist())):
                words.setdefault(word, len(words))
        return words

    @property
    def _index(self) -> Mapping[str, int]:
        return {name: index for index, name in enumerate(self.vocabulary.derived)}

    def text(self) -> str:
        """The functions and tables."""
        readers = [operation_reader(work) for work in self.works.values()]
        readers = [device_reader(self.device, self.extras), *readers, problem_reader(self.operations)]
        functions = [function for kernel in self.kernels for function in kernel.functions]
        tables = [kernel.values() for kernel in self.kernels]
        tables += [self._words_of(kernel) for kernel in self.kernels]
        tables += [self._quantities(kernel) for kernel in self.kernels]
        words = ", ".join(map(literal, self.words.numbers))
        return "\n\n".join([f"static const char *const sq_words[] = {{{words}, 0}};", *readers, *functions, *tables,
                            self._table()])

    def _words_of(self, kernel: CKernel) -> str:
        """The target words of the values of each parameter."""
        listed = self.vocabulary.value_words(kernel.kernel.name)
        lines = [whole_numbers("uint16_t", f"sq_words_{kernel.number}_{column}",
                               [self.targets[word] for word in words.tolist()])
                 for column, words in enumerate(listed)]
        names = ", ".join(f"sq_words_{kernel.number}_{column}" for column in range(len(listed))) or "0"
        return "\n".join([*lines, f"static const uint16_t *const sq_words_{kernel.number}[] = {{{names}}};"])

    def _quantities(self, kernel: CKernel) -> str:
        """The numeric derived quantities that the vocabulary knows."""
        rows = [f"{{{column}, {slot}, {int(kernel.table.names[name].kind == 'd')}, {self._index[name]}}}"
                for name, (column, slot) in kernel.quantities.items()]
        return f"static const sq_quantity sq_quantities_{kernel.number}[] = {{{', '.join(rows) or '{0, 0, 0, 0}'}}};"

    def _table(self) -> str:
        rows = []
        for kernel in self.kernels:
            name, number = kernel.kernel.name, kernel.number
            rows.append(f"    {{{literal(name)}, {len(kernel.kernel.parameters)}, {len(kernel.quantities)}, "
                        f"{self.targets[self.vocabulary.kernel(name)]}, sq_parameters_{number}, "
                        f"sq_quantities_{number}, sq_words_{number}, sq_solves_{number}, sq_check_{number}, "
                        f"sq_resolve_{number}}}")
        operations = [constant(self.works[kernel.kernel.operation].operation) for kernel in self.kernels]
        return "\n".join([f"static const int sq_kernel_operations[] = {{{', '.join(operations)}}};",
                          "static const sq_kernel sq_kernels[] = {", ",\n".join(rows), "};"])


def _extras(vocabulary: Vocabulary, kernels: Sequence[Kernel], operations: Sequence[Operation]) -> tuple[str, ...]:
    """The facts of devices that only some devices have and that kernels or the model read, sorted by name."""
    own = {"backend", *NUMBER_FACTS, "instruction_set", "architecture", "peak_gflops", "bandwidth_gbs"}
    given = {work.name: {*work.by_name, *(name for name, _ in work.derived)} for work in operations}
    wanted = {name.removeprefix("device.") for name in vocabulary.names if name.startswith("device.")}
    for work in operations:
        facts = own_facts(work.name)
        computed = {name for name, fact in facts.items() if fact.text != name}  # which later facts may name
        wanted |= {name for fact in facts.values() for name in fact.names} - given[work.name] - computed
    for kernel in kernels:
        wanted |= set(kernel.names_read()) - given[kernel.operation]
        wanted |= {name for condition in kernel.solves for name in condition.expression.names} - given[kernel.operation]
    return tuple(sorted(wanted - own))
