"""The argument `strategy` of Kernel Tuner's `tune_kernel`. Users know this module as `seqtune.kerneltuner`.

    >>> from kernel_tuner import tune_kernel  # doctest: +SKIP
    >>> from seqtune.kerneltuner import strategy
    >>> tune_kernel(..., strategy=strategy(), strategy_options={"max_fevals": 100})  # doctest: +SKIP
    >>> tune_kernel(..., strategy=strategy(checkpoint="mine"))  # doctest: +SKIP

Kernel Tuner compiles, runs and checks; our strategy proposes the configurations. With a checkpoint that was trained on
caches of the kernel (`seqtune import kernel-tuner`), the checkpoint's proposals for the problem come first; values that
it does not know are left to the search. Kernel Tuner's hook is the class `OptAlg`
(kernel_tuner/strategies/wrapper.py): its cost function is called with one configuration after the other and raises an
exception when the budget ends.
"""

from __future__ import annotations

import math
import sys
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
from seqtune.data.record import Measurement, Status
from seqtune.errors import CheckpointError, MisuseError, UnavailableError, shown
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel, Parameter, Setting, identity
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Task
from seqtune.predictor.predictors import cached_checkpoint
from seqtune.tuner.strategies.strategy import SearchContext, StrategyFactory
from seqtune.tuner.strategies.table import strategy_entry, strategy_factory

if TYPE_CHECKING:
    from seqtune.predictor.sequence.declaration import Declaration
    from seqtune.predictor.sequence.vocabulary import Vocabulary

__all__ = ["strategy"]

PROPOSALS = 8  # proposals at the beginning of a search; as many as a predictor's seeds in `seqtune tune`
_DEVICE = Device("kernel-tuner", "recorded", "unknown", "none")
_PROBLEM = Problem.make("recorded")

Settings = Mapping[str, Setting]


def strategy(name: str = "portfolio", seed: int = 0, *, checkpoint: str | Path | None = None,
             problem: Mapping[str, Any] | str | None = None, kernel: str | None = None, device: str | None = None,
             proposals: int = PROPOSALS) -> Any:
    """Make an object for the argument `strategy` of `tune_kernel`, from a strategy's name and its seed.

    The first `proposals` configurations are those of the `checkpoint`, trained on caches of this kernel (see
    `WarmStart`, which explains `problem`, `kernel` and `device`). Raises MisuseError for wrong arguments,
    CheckpointError, and UnavailableError without Kernel Tuner.
    """
    factory = strategy_factory(name)
    if seed < 0:
        raise MisuseError(f"seed={shown(seed)}; it must not be negative")
    warm = warm_start(name, checkpoint, problem, kernel, device, proposals)
    try:
        from kernel_tuner.strategies.wrapper import OptAlg, OptAlgWrapper
    except ImportError:
        raise UnavailableError("Kernel Tuner is not installed: pip install kernel_tuner") from None

    class Optimizer(OptAlg):  # type: ignore[misc]
        """Runs a search with one of our strategies."""

        def __init__(self) -> None:
            super().__init__()
            self.costfunc_kwargs = {"scaling": False, "snap": False}  # it gets configurations unchanged
            self.constraint_aware = False

        def __call__(self, func: Any, searchspace: Any) -> tuple[tuple[Any, ...], float]:
            return search(func, searchspace, factory, seed, warm)

    return OptAlgWrapper(Optimizer())


def warm_start(name: str, checkpoint: str | Path | None, problem: Mapping[str, Any] | str | None = None,
               kernel: str | None = None, device: str | None = None, proposals: int = PROPOSALS) -> WarmStart | None:
    """The warm start of a strategy with this name; None without a checkpoint. Raises MisuseError, CheckpointError."""
    if checkpoint is None:
        if (problem, kernel, device) != (None, None, None):
            raise MisuseError("problem, kernel and device describe a search to a checkpoint; name one (checkpoint=)")
        return None
    if strategy_entry(name).seeds == "ignored":
        raise MisuseError(f"the strategy {name} ignores a checkpoint's proposals; choose portfolio or predictor")
    if proposals < 1:
        raise MisuseError(f"proposals={proposals}; at least 1 is needed")
    return WarmStart(checkpoint, problem, kernel, device, proposals)


def search(func: Any, searchspace: Any, factory: StrategyFactory, seed: int = 0,
           warm: WarmStart | None = None) -> tuple[tuple[Any, ...], float]:
    """Search until the strategy ends; return the best configuration and its cost.

    `func` and `searchspace` are Kernel Tuner's CostFunc and Searchspace. `func` raises an exception when the budget
    ends, which is passed on. Raises MisuseError and CheckpointError before the first call of `func`.
    """
    values: Mapping[str, Sequence[Any]] = searchspace.tune_params
    space = space_of(values, searchspace.list)
    proposed = [] if warm is None else warm.proposals(values, searchspace.list, getattr(func, "runner", None))
    limit = getattr(func, "tuning_options", {}).get("max_fevals")
    trials = int(limit) if isinstance(limit, int | float) and math.isfinite(limit) else None
    seeds = [_configuration(space, settings) for settings in proposed]
    searching = factory(SearchContext(Task(_PROBLEM, _DEVICE, (space,)), seed, trials, seeds=seeds))
    best: tuple[tuple[Any, ...], float] = ((), sys.float_info.max)
    while configurations := searching.ask(1):
        for configuration in configurations:
            indices = space.rows[space.row(configuration)]
            settings = tuple(column[index] for column, index in zip(values.values(), indices, strict=True))
            cost = func(settings)
            if isinstance(cost, int | float) and cost < best[1]:
                best = settings, float(cost)
            searching.tell(configuration, _measurement(cost))
    return best


def space_of(values: Mapping[str, Sequence[Any]], listed: Sequence[Sequence[Any]]) -> SearchSpace:
    """Make a SearchSpace from Kernel Tuner's: the values of every parameter, and the list of valid configurations."""
    parameters = [Parameter(name, tuple(map(plain_setting, column))) for name, column in values.items()]
    kernel = Kernel("recorded.kernel-tuner", "recorded", ("recorded",), tuple(parameters), (), ())
    rows = np.array([[parameter.index(plain_setting(value)) for parameter, value in zip(
        parameters, configuration, strict=True)] for configuration in listed], np.int16)
    return SearchSpace.of_rows(kernel, _PROBLEM, _DEVICE, rows.reshape(len(listed), len(parameters)))


def _configuration(space: SearchSpace, settings: Settings) -> Configuration:
    """The configuration with these settings; a parameter that they lack has a single value."""
    return Configuration(space.kernel.name, tuple(
        (parameter.name, as_listed(parameter.values)(settings.get(parameter.name, parameter.values[0])))
        for parameter in space.kernel.parameters))


def _measurement(cost: object) -> Measurement:
    """Convert a cost in milliseconds; a negative cost is an objective to maximise, whose inverse is used instead."""
    value = float(cost) if isinstance(cost, int | float) else math.inf
    if not math.isfinite(value) or value == 0 or value >= sys.float_info.max:
        return Measurement(Status.RUNTIME, message="Kernel Tuner could not measure it")
    return Measurement(Status.CORRECT, (value * 1e-3 if value > 0 else -1 / value,))


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
