"""Judge: how often a method tells a tuner's choice, over the free parameters of each solver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field

import numpy as np

from seqtune.data.labels import Labels, Races
from seqtune.kernels.miopen.solver import PREFIX

from .methods import Answers, Method, valid

TOP = 5


@dataclass(frozen=True, slots=True)
class Score:
    """Shares over labels. `exact`: the first proposal is the label; `exact_top5`: one of five is; `per_parameter`: of
    the parameters in the first proposal; `teacher_forced`: of the parameters after the true values before them, None
    where a method cannot say. `invalid`: proposals outside of the space."""

    n: int
    exact: float
    exact_top5: float
    per_parameter: float
    teacher_forced: float | None
    invalid: int

    @classmethod
    def of(cls, labels: Labels, answers: Answers) -> Score:
        """Of at least one label."""
        wanted = labels.places[:, None, :]
        same = np.asarray((answers.proposed == wanted) & (wanted >= 0))
        whole = np.asarray(same.all(axis=2))
        there = np.asarray((answers.proposed >= 0).all(axis=2))
        invalid = sum(int((there[:, rank] & ~valid(labels.kernel, labels.questions, answers.proposed[:, rank])).sum())
                      for rank in range(there.shape[1]))
        return cls(len(labels), float(whole[:, 0].mean()), float(whole[:, :TOP].any(axis=1).mean()),
                   float(same[:, 0].mean()), None if answers.told is None else float(answers.told.mean()), invalid)


@dataclass(frozen=True, slots=True)
class LabelRow:
    """One line of the table: a device and a solver; `baselines` by name, `parts` by `direction=...` and `dtype=...`."""

    device: str
    solver: str
    score: Score
    baselines: Mapping[str, Score] = field(default_factory=dict)
    parts: Mapping[str, Score] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """A JSON object, the score's fields beside device and solver."""
        found: dict[str, object] = {"device": self.device, "solver": self.solver, **asdict(self.score)}
        if self.baselines:
            found["baselines"] = {name: asdict(score) for name, score in self.baselines.items()}
        if self.parts:
            found["parts"] = {name: asdict(score) for name, score in self.parts.items()}
        return found


def judge(method: Method, labels: Mapping[str, Labels], baselines: Mapping[str, Method] | None = None,
          by: tuple[str, ...] = (), progress: Callable[[str], None] = lambda step: None) -> list[LabelRow]:
    """A row per device and solver; `by` names features of problems (direction, dtype) whose values get a part each."""
    rows = []
    for name, every in labels.items():
        for number, device in enumerate(every.questions.devices):
            mine = every.take(np.flatnonzero(every.questions.device == number))
            if not len(mine):
                continue
            progress(f"judging {len(mine)} labels of {name.removeprefix(PREFIX)} on {device.name}")
            answers = method.answer(mine, TOP)
            rows.append(LabelRow(
                device.name, name.removeprefix(PREFIX), Score.of(mine, answers),
                {title: Score.of(mine, other.answer(mine, TOP)) for title, other in (baselines or {}).items()},
                {part: score for word in by for part, score in _parts(mine, answers, word)}))
    return rows


def _parts(labels: Labels, answers: Answers, word: str) -> list[tuple[str, Score]]:
    values = labels.questions.problems.columns.values[word][labels.questions.problem]
    found = []
    for value in np.unique(values):
        rows = np.flatnonzero(values == value)
        part = Answers(answers.proposed[rows], None if answers.told is None else answers.told[rows])
        found.append((f"{word}={value}", Score.of(labels.take(rows), part)))
    return found


@dataclass(frozen=True, slots=True)
class RaceRow:
    """One line of the solver choice. Shares are geometric means of the best solver's time over the chosen one's."""

    device: str
    n: int
    top1: float  # share of problems whose fastest solver was chosen
    share: float
    default_share: float  # of always the solver that wins most often among those that apply
    trees_share: float | None = None  # of a classifier of boosted trees, where asked for

    def to_json(self) -> dict[str, object]:
        """A flat JSON object; what was not asked for is left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def race_rows(races: Races, chosen: np.ndarray[tuple[int], np.dtype[np.int64]],
              trees: np.ndarray[tuple[int], np.dtype[np.int64]] | None = None) -> list[RaceRow]:
    """A row per device; `chosen[i]` is the entry that was chosen in race i."""
    best = np.minimum.reduceat(races.seconds, races.starts[:-1])
    owner = np.repeat(np.arange(len(races)), np.diff(races.starts))
    won = races.seconds <= best[owner]
    rows = []
    for number, device in enumerate(races.questions.devices):
        mine = np.flatnonzero(races.questions.device == number)
        if not len(mine):
            continue
        wins = np.bincount(races.solver[won & (races.questions.device[owner] == number)],
                           minlength=len(races.names)).astype(float)
        usual = first_best(races, wins[races.solver])

        def share(entries: np.ndarray[tuple[int], np.dtype[np.int64]],
                  mine: np.ndarray[tuple[int], np.dtype[np.int64]] = mine) -> float:
            return float(np.exp(np.log(best[mine] / races.seconds[entries[mine]]).mean()))

        rows.append(RaceRow(device.name, len(mine), float(won[chosen[mine]].mean()), share(chosen), share(usual),
                            None if trees is None else share(trees)))
    return rows


def first_best(races: Races, scores: np.ndarray[tuple[int], np.dtype[np.floating]]
               ) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Per race the entry with the highest score, the first of equals."""
    lengths = np.diff(races.starts)
    top = np.repeat(np.maximum.reduceat(scores, races.starts[:-1]), lengths)
    entries = np.flatnonzero(scores >= top)
    owner = np.repeat(np.arange(len(races)), lengths)[entries]
    return entries[np.unique(owner, return_index=True)[1]]
