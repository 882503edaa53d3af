"""The verb `predict` for an ONNX file: all of its convolutions and matrix products in one go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from seqtune.kernels.devices.device import Device
from seqtune.kernels.files import check_path
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.from_onnx import ProblemNode, UndescribedNode, read_onnx
from seqtune.kernels.say import Say, silent

from ..errors import MisuseError, shown
from .bulk import BulkAnswer, predict_many
from .inputs import as_device
from .results import Answer, duration, finite

SHOWN_REASONS = 2  # a reason may name a tensor, and then each node of an operator has another one


@dataclass(frozen=True, slots=True)
class OnnxRow:
    """One problem of a model, with its answer."""

    answer: BulkAnswer
    count: int  # how often the problem is solved when the model runs once
    nodes: tuple[str, ...]  # names of the nodes that are this problem
    notes: tuple[str, ...]  # what the problem leaves to others
    work_share: float  # of the floating-point operations of all problems of the model
    time_share: float | None = None  # of the known times of the problems, each with its winner; None if unknown

    @property
    def seconds(self) -> float | None:
        """The time of all runs of the winner; None where it was not measured."""
        return self._all_runs(self.answer.winner)

    @property
    def default_seconds(self) -> float | None:
        """The time of all runs of the safe default; None where it was not measured."""
        return self._all_runs(None if self.answer.verification is None else self.answer.verification.default)

    def _all_runs(self, proposal: Answer | None) -> float | None:
        measurement = None if proposal is None else proposal.measurement
        seconds = None if measurement is None else finite(measurement.seconds)
        return None if seconds is None else self.count * seconds

    def to_json(self) -> dict[str, object]:
        """A JSON object."""
        return {"answer": self.answer.to_json(), "count": self.count, "nodes": list(self.nodes),
                "notes": list(self.notes), "work_share": self.work_share, "time_share": self.time_share,
                "seconds": self.seconds}


@dataclass(frozen=True, slots=True)
class OnnxPrediction:
    """The answers to all problems of a model, in its order, and what else it has."""

    path: Path
    device: str  # its name
    rows: tuple[OnnxRow, ...]
    undescribed: tuple[UndescribedNode, ...]  # nodes with products, or of unknown meaning, that no problem describes
    absorbed: Mapping[str, int]  # operator -> number of nodes that are the bias or the activation of a problem
    others: Mapping[str, int]  # operator -> number of all other nodes

    @property
    def seconds(self) -> float | None:
        """The time of all problems with their winners when the model runs once; None if one was not measured."""
        return _sum(row.seconds for row in self.rows)

    @property
    def default_seconds(self) -> float | None:
        """The same with the safe defaults."""
        return _sum(row.default_seconds for row in self.rows)

    def notes(self) -> list[str]:
        """Lines about the answers and about the nodes that have none."""
        lines = [f"{row.answer.problem.brief()}: {reason}" for row in self.rows if (reason := row.answer.shortfall)]
        known = sum(row.seconds is not None for row in self.rows)
        if 0 < known < len(self.rows):
            lines.append(f"{len(self.rows) - known} of {len(self.rows)} problems have no time; the shares are those of "
                         "the others")
        loaded = sum(row.answer.verification is not None and row.answer.verification.loaded for row in self.rows)
        if loaded:
            lines.append(f"{loaded} of these times were measured while other work had much of the machine; measure "
                         "again when it is quiet")
        if self.seconds is not None:
            beside = f", {duration(self.default_seconds)} with the safe defaults" if self.default_seconds else ""
            lines.append(f"one run of the model spends {duration(self.seconds)} in these kernels{beside}")
        notes = Counter(note for row in self.rows for note in row.notes)
        lines += [f"{count} of these nodes: {note}" for note, count in notes.items()]
        if self.absorbed:
            lines.append(f"part of these problems, as bias or activation: {_counted(self.absorbed)}")
        lines += [f"left out: {count} {operator} ({_reasons(self.undescribed, operator)})"
                  for operator, count in Counter(node.operator for node in self.undescribed).items()]
        if self.rows and self.undescribed:
            lines.append("the shares of work count only what is in the table")
        if self.others:
            lines.append(f"without products: {_counted(self.others)}")
        return lines

    def to_json(self) -> dict[str, object]:
        """A JSON object."""
        return {"file": str(self.path), "device": self.device, "problems": [row.to_json() for row in self.rows],
                "undescribed": [node.to_json() for node in self.undescribed], "absorbed": dict(self.absorbed),
                "others": dict(self.others), "seconds": self.seconds, "default_seconds": self.default_seconds}


def predict_onnx(path: str | Path, device: Device | str = "llvm:0", top: int = 1, *,
                 inputs: Mapping[str, Sequence[int]] | None = None, verify: bool = False, seconds: float | None = None,
                 cache: bool = True, checkpoint: str | Path | None = None, journal: str | Path | None = None,
                 evidence: bool = True, progress: Say = silent) -> OnnxPrediction:
    """Predict the `top` most promising configurations of every convolution and matrix product of an ONNX file.

    `inputs` gives sizes of the model's inputs that the file leaves open, as name -> sizes. Equal problems are answered
    once and counted. With `verify` the candidates are measured, and `seconds` is one budget for all; the other
    arguments are those of `predict_many`. Raises MisuseError for wrong arguments, FormatError for a damaged file,
    ProblemError where sizes are unknown, MissingPackageError without the package `onnx`.
    """
    check_path("path", path)
    if inputs is not None and not (isinstance(inputs, Mapping) and all(
            isinstance(name, str) and isinstance(sizes, Sequence) and not isinstance(sizes, str)
            for name, sizes in inputs.items())):
        raise MisuseError(f"inputs={shown(inputs)}; it maps names of inputs to their sizes")
    device = as_device(device)
    progress("reading the model")
    model = read_onnx(path, inputs)
    nodes: dict[Problem, list[ProblemNode]] = {}
    for node in model.nodes:
        nodes.setdefault(node.problem, []).append(node)
    answers = list(predict_many(list(nodes), device, top, verify=verify, seconds=seconds, cache=cache,
                                checkpoint=checkpoint, journal=journal, evidence=evidence, progress=progress))
    return OnnxPrediction(Path(path), device.name, _rows(answers, nodes), model.undescribed, model.absorbed,
                          model.others)


def _rows(answers: Sequence[BulkAnswer], nodes: Mapping[Problem, Sequence[ProblemNode]]) -> tuple[OnnxRow, ...]:
    """The answers with their counts and shares."""
    work = {problem: problem.size("flop") * sum(node.count for node in own) for problem, own in nodes.items()}
    rows = [OnnxRow(answer, sum(node.count for node in own), tuple(node.name for node in own),
                    tuple(node.note for node in own if node.note), work[answer.problem] / sum(work.values()))
            for answer in answers for own in [nodes[answer.problem]]]
    known = sum(row.seconds or 0 for row in rows)
    return tuple(replace(row, time_share=None if row.seconds is None else row.seconds / known) for row in rows)


def _sum(values: Iterable[float | None]) -> float | None:
    """The sum of values; None if one is unknown or there is none."""
    numbers = list(values)
    known = [number for number in numbers if number is not None]
    return sum(known) if known and len(known) == len(numbers) else None


def _reasons(nodes: Iterable[UndescribedNode], operator: str) -> str:
    """Why nodes of an operator are left out: the first reasons; the JSON object has that of each node."""
    reasons = list(dict.fromkeys(node.reason for node in nodes if node.operator == operator))
    more = len(reasons) - SHOWN_REASONS
    return "; ".join([*reasons[:SHOWN_REASONS], *([f"{more} more reasons, see --json"] if more > 0 else [])])


def _counted(operators: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {operator}" for operator, count in operators.items())
