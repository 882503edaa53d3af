"""FailureCount: the failed trials of one status, and the settings that they have in common."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from seqtune.data.record import Measurement, Status
from seqtune.kernels.kernel import Configuration, Setting, identity, shown_setting

MOST_VALUES = 3  # values of one parameter that are worth naming
IN_DOUBT = ("no reference or expected data are declared, so wrong results are those that differ from the default "
            "configuration's, which may itself be the wrong one")


@dataclass(frozen=True, slots=True)
class FailureCount:
    """Failed trials of one status."""

    status: str
    count: int
    message: str  # the message of the first failed trial; may be empty
    common: Mapping[str, tuple[Setting, ...]]  # parameter -> the values of these trials; empty if nothing tells them
    #                                            from other trials
    configuration: Configuration  # of the first failed trial

    def __str__(self) -> str:
        which = "the first has" if not self.common else "all have" if self.count > 1 else "it has"
        common = ", ".join(f"{name}={' or '.join(map(shown_setting, values))}" for name, values in self.common.items())
        return (f"{self.count} {self.status} ({which} {common or self.configuration.brief()})"
                f"{f': {self.message!r}' if self.message else ''}")

    def to_json(self) -> dict[str, object]:
        """A JSON object."""
        return {"status": self.status, "count": self.count, "message": self.message,
                "common": {name: list(values) for name, values in self.common.items()},
                "configuration": dict(self.configuration.settings)}


def count_failures(failed: Mapping[Configuration, Measurement],
                   correct: Iterable[Configuration]) -> tuple[FailureCount, ...]:
    """Count failed trials by status, the most frequent one first; `correct` are the trials that did not fail."""
    kinds: dict[Status, list[Configuration]] = {}
    for configuration, measurement in failed.items():
        kinds.setdefault(measurement.status, []).append(configuration)
    others = list(correct)
    counts = [FailureCount(
        status.value, len(configurations), next(filter(None, (failed[each].message for each in configurations)), ""),
        common_settings(configurations, others), configurations[0]) for status, configurations in kinds.items()]
    return tuple(sorted(counts, key=lambda failure: -failure.count))


def common_settings(failed: Sequence[Configuration],
                    correct: Sequence[Configuration]) -> dict[str, tuple[Setting, ...]]:
    """The settings that tell failed trials from correct ones: parameter -> its values in the failed trials.

    These are the parameters with up to MOST_VALUES values that no correct trial has. Where there is none, all that have
    one value in every failed trial and others in correct ones.
    """
    correct = [each for each in correct if each.kernel == failed[0].kernel]
    if not correct or len({each.kernel for each in failed}) > 1:
        return {}
    values, others = _values(failed), _values(correct)
    own = {name: given for name, given in values.items()
           if len(given) <= MOST_VALUES and given.keys().isdisjoint(others[name])}
    shared = own or {name: given for name, given in values.items()
                     if len(given) == 1 and given.keys() != others[name].keys()}
    return {name: tuple(given.values()) for name, given in shared.items()}


def _values(configurations: Sequence[Configuration]) -> dict[str, dict[Hashable, Setting]]:
    """The values of each parameter by `identity`, in the order of the configurations."""
    values: dict[str, dict[Hashable, Setting]] = {}
    for configuration in configurations:
        for name, value in configuration.settings:
            values.setdefault(name, {})[identity(value)] = value
    return values


def is_in_doubt(failed: Iterable[Measurement]) -> bool:
    """Whether a trial failed because its numbers differ from others, not for poison or a write outside a buffer."""
    return any(each.status is Status.CORRECTNESS and each.error is not None for each in failed)
