"""WarmStart: a checkpoint that was trained on Kernel Tuner's caches, and its proposals for a new search.

The kernel, its parameters and the features of its problems are those of the import (`seqtune import kernel-tuner`).
Values that the checkpoint does not know are left to the search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seqtune.data.formats.foreign_records import (
    BACKEND,
    as_listed,
    feature_value,
    plain_word,
    recorded_device,
    recorded_problem,
    setting,
)
from seqtune.errors import CheckpointError, MisuseError
from seqtune.kernels.kernel import Kernel, Parameter, Setting, identity
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Task
from seqtune.predictor.predictors import cached_checkpoint

if TYPE_CHECKING:
    from seqtune.kernels.problem import Problem
    from seqtune.predictor.sequence.declaration import Declaration
    from seqtune.predictor.sequence.vocabulary import Vocabulary

PROPOSALS = 8  # proposals at the beginning of a search; as many as a predictor's seeds in `seqtune tune`

Settings = Mapping[str, Setting]


@dataclass(frozen=True)
class WarmStart:
    """A checkpoint, and facts that Kernel Tuner does not pass on. Making one raises MisuseError, CheckpointError.

    `problem` has features of the problem, as a mapping or as text (`size_x=4096 size_y=4096`): by default, the sizes
    that `tune_kernel` got, and those parameters with a single value that the checkpoint knows as features. `kernel` and
    `device` are names, by default those that Kernel Tuner knows.
    """

    checkpoint: str | Path
    problem: Mapping[str, Any] | str | None = None
    kernel: str | None = None
    device: str | None = None
    count: int = PROPOSALS
    _declared: Mapping[str, Declaration] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        vocabulary = cached_checkpoint(self.checkpoint).vocabulary
        prefix = f"{BACKEND}."
        declared = {kernel.name.removeprefix(prefix): kernel for kernel in vocabulary.kernels
                    if kernel.name.startswith(prefix)}
        if not declared:
            raise CheckpointError(f"the checkpoint {self.checkpoint} knows no kernel of imported caches (seqtune "
                                  "import kernel-tuner, then seqtune train)")
        if self.kernel is not None and plain_word(self.kernel) not in declared:
            raise MisuseError(f"the checkpoint {self.checkpoint} does not know the kernel {self.kernel!r:.60}; it "
                              f"knows {', '.join(declared)}")
        object.__setattr__(self, "_declared", declared)

    def proposals(self, values: Mapping[str, Sequence[Any]], listed: Sequence[Sequence[Any]],
                  runner: object) -> list[Settings]:
        """The proposed settings for a search space of Kernel Tuner, the most probable first.

        `values` has the values of every parameter, `listed` the valid configurations; `runner` is Kernel Tuner's.
        Raises MisuseError, CheckpointError.
        """
        options = getattr(runner, "kernel_options", {})
        declaration = self._declaration(options)
        names = [name for name, _ in declaration.parameters]
        lacking = next((name for name in names if name not in values), None)
        fixed = {name: feature_value(plain_setting(column[0])) for name, column in values.items() if len(column) == 1}
        model = cached_checkpoint(self.checkpoint)
        known = _feature_names(model.vocabulary)
        unknown = [name for name in values if name not in names and not (name in fixed and name in known)]
        if lacking is not None or unknown:
            raise MisuseError(f"the checkpoint's kernel {declaration.name} has the parameters {' '.join(names)}, "
                              f"tune_kernel got {' '.join(values)}")
        problem = self._problem(declaration, options, {name: fixed[name] for name in fixed if name not in names}, known)
        kernel = Kernel(declaration.name, "recorded", (BACKEND,), tuple(
            Parameter(name, tuple(column)) for name, column in declaration.parameters), (), (),
            version=declaration.version)
        space = self._space(kernel, problem, values, listed, runner)
        if not len(space):
            raise MisuseError(f"the checkpoint knows no configuration of this search space of {declaration.name}: all "
                              "have values that its training lacked")
        task = Task(problem, space.device, (space,))
        model.check_kernels(task.kernels)
        return [dict(candidate.configuration.settings) for candidate in model.propose([task], self.count)[0]]

    def _declaration(self, options: Any) -> Declaration:
        """The checkpoint's kernel: the one that was named, Kernel Tuner's, or the only one. Raises MisuseError."""
        given = self.kernel or (options.get("kernel_name") if isinstance(options, Mapping) else None)
        name = plain_word(str(given))
        if given is not None and name in self._declared:
            return self._declared[name]
        if self.kernel is None and len(self._declared) == 1:
            return next(iter(self._declared.values()))
        raise MisuseError(f"the checkpoint knows the kernels {', '.join(self._declared)}, not {given}; name "
                          "one of them (kernel=)")

    def _problem(self, declaration: Declaration, options: Any, fixed: Settings, known: set[str]) -> Problem:
        given = self.problem
        if isinstance(given, str):
            given = dict(parse_problem(f"recorded {given}"))
        sizes = options.get("problem_size", ()) if isinstance(options, Mapping) else ()
        sizes = [_plain(size) for size in (sizes if isinstance(sizes, Sequence) and not isinstance(sizes, str)
                                           else [sizes])]
        features = {**fixed, **{name: plain_word(value) if isinstance(value, str) else value
                                for name, value in (given or {}).items()}}
        problem = recorded_problem(declaration.name.partition(".")[2], sizes, features)
        unknown = [name for name, _ in problem if name not in known]
        if unknown:
            raise MisuseError(f"the checkpoint knows no feature {unknown[0]!r:.40} of problems; it knows "
                              f"{', '.join(sorted(known))} (problem= names them)")
        return problem

    def _space(self, kernel: Kernel, problem: Problem, values: Mapping[str, Sequence[Any]],
               listed: Sequence[Sequence[Any]], runner: object) -> SearchSpace:
        """The configurations whose values the checkpoint knows."""
        device = recorded_device(self.device or str(getattr(getattr(runner, "dev", None), "name", "") or "unknown"))
        columns = [list(values).index(parameter.name) for parameter in kernel.parameters]
        readers = [as_listed(parameter.values) for parameter in kernel.parameters]
        rows = [[parameter.indices.get(identity(read(plain_setting(configuration[column]))), -1)
                 for parameter, read, column in zip(kernel.parameters, readers, columns, strict=True)]
                for configuration in listed]
        table = np.array(rows, np.int16).reshape(len(listed), len(columns))
        return SearchSpace.of_rows(kernel, problem, device, table[(table >= 0).all(axis=1)])


def _feature_names(vocabulary: Vocabulary) -> set[str]:
    """The features of problems that a vocabulary knows."""
    return {name.removeprefix("recorded.") for name in vocabulary.names if name.startswith("recorded.")}


def plain_setting(value: Any) -> Setting:
    """A value of Kernel Tuner's, which may be a NumPy number, as a setting. Raises FormatError."""
    return setting(_plain(value))


def _plain(value: Any) -> Any:
    """A NumPy number as a Python value."""
    return value.item() if isinstance(value, np.generic) else value
