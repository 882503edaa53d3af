"""The verb `dispatch`: chooses a few kernels for all shapes of an operation, with a rule, files and a proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from seqtune.kernels.devices.device import Device
from seqtune.kernels.files import check_path
from seqtune.kernels.operations.table import operation as operation_of
from seqtune.kernels.problem import Problem
from seqtune.kernels.say import Say, silent
from seqtune.tuner.measuring.deadline import Deadline

from ...errors import DeviceError, InterruptedTuning, MisuseError, UnavailableError, shown, warned
from ..checking import check_measuring
from ..inputs import as_device, check_folder, check_journal, check_own_journal, deadline_in

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset

    from .choosing import Question
    from .results import Dispatched

DEFAULT_DEVICE = "llvm:0"
LEAST_MINUTES = 0.5  # loading, the candidates and the choice take 10 to 25 seconds, and measuring the rest
PREFIX = "dispatch"  # of the files' names and of the public names in C
FRESH = 100  # shapes of the bound: 97 of 100 within the factor promise 93 % with 90 % confidence


def dispatch(operation: str, shapes: object = None, device: Device | str | None = None, *,
             kernels: int | Literal["auto"] = "auto", bytes: int | None = None, goal: str = "mean",
             slowdown: float | None = None, minutes: float | None = None, domain: Sequence[str] = (),
             data: str | Path | None = None, checkpoint: str | Path | None = None,
             journal: str | Path | None = None, out: str | Path, prefix: str = PREFIX, fresh: int = FRESH,
             seed: int = 0, progress: Say = silent, note: Say = warned) -> Dispatched:
    """Choose a few kernels for the shapes of an operation, and a rule that picks one of them for any shape.

    `shapes` are a mapping from problems to weights (their shares of the run time), or several problems of the
    `operation` in any accepted form (None: those of `data`). `domain` declares which shapes the files promise to serve,
    by ranges such as `m=1..4096` and constraints; features that it does not name have the ranges of the shapes.
    `device` is one of this machine (None: llvm:0), or of the data.

    `kernels` is their number, or "auto": the smallest number beyond which further ones gain at most 0.5 % each on
    shapes that the rule did not learn from. Of these, a kernel that serves no shape is left out, and some are added
    where a shape would have no valid kernel or the library's default would be better. `bytes` stands instead of it: the
    most kernels, up to 10, whose compiled objects take at most so many together, where an object is the largest for the
    given shapes that its kernel serves. `goal` is the geometric mean of the speed ("mean"), the mean of its worst tenth
    ("worst"), or the share of shapes that are at most `slowdown` times as slow as their best ("within"; 1.10 by
    default).

    `minutes` (0.5 or more) limits the call; all measurements are in the journal (None: the user's) at once, and the
    same call again goes on. With `data`, a data set, the folder of a collection or a journal, nothing is measured.
    `checkpoint` predicts the times that are not measured (None: the predictor that answers; without one, trees that
    learn from what is measured). `fresh` shapes of the domain are drawn and measured for the bound.

    The files are written into the folder `out`. Their names and the public names in C begin with `prefix`, so that one
    program may have several dispatchers. `progress` receives a line after each stage, `note` what the user should
    notice. Raises MisuseError for wrong arguments, InterruptedTuning on Ctrl-C or SIGTERM.
    """
    deadline = deadline_in(minutes)
    if minutes is not None and minutes < LEAST_MINUTES:
        raise MisuseError(f"minutes={shown(minutes)}; candidates and a choice alone take a part of a minute: give at "
                          f"least {LEAST_MINUTES}")
    from seqtune.predictor.dispatch.goal import Goal
    from seqtune.predictor.dispatch.rule import MOST_MEMBERS

    from .choosing import Question
    from .outputs import check_replaceable
    from .shapes import as_shapes
    from .stages import dispatch_data

    check_path("out", out)
    work, folder = operation_of(operation), Path(out)
    check_folder(folder)
    check_replaceable(folder, prefix)
    wanted = as_shapes(operation, shapes) if shapes is not None or data is None else None
    if kernels != "auto" and not _is_whole(kernels, 1, MOST_MEMBERS):
        raise MisuseError(f"kernels={shown(kernels)}; it must be auto or a whole number from 1 to {MOST_MEMBERS}")
    if bytes is not None and kernels != "auto":
        raise MisuseError(f"kernels={kernels} and bytes={shown(bytes)} are given; give one of them")
    if bytes is not None and not _is_whole(bytes, 1):
        raise MisuseError(f"bytes={shown(bytes)}; it must be a positive whole number")
    for name, number in (("fresh", fresh), ("seed", seed)):
        if not _is_whole(number, 0):
            raise MisuseError(f"{name}={shown(number)}; it must be a whole number from 0 on")
    if slowdown is not None and goal != "within":
        raise MisuseError(f"a slowdown is for the goal within, not for {goal!r:.40}")
    question = Question(
        work, Goal(goal, 1.1 if slowdown is None else slowdown),  # type: ignore[arg-type]  # it refuses other words
        None if kernels == "auto" else kernels, tuple(domain), fresh, seed, checkpoint, folder, prefix, progress,
        note, bytes)
    if data is None:
        assert wanted is not None
        return _measured(question, wanted, as_device(DEFAULT_DEVICE if device is None else device), deadline, journal)
    unused = {"minutes": minutes, "checkpoint": checkpoint, "journal": journal}
    wrong = [word for word, value in unused.items() if value is not None]
    if wrong:
        raise MisuseError(f"{' and '.join(wrong)} cannot be combined with data: nothing is measured then, and trees "
                          "learn from the data")
    content = _dataset(Path(data))
    meant = device.key if isinstance(device, Device) else device
    if meant is not None and not content.named(meant):
        meant = as_device(meant).name
    return dispatch_data(question, content, content.device(meant), wanted)


def _is_whole(value: object, least: int, most: int = 1 << 62) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _dataset(path: Path) -> Dataset:
    """The data set of a file, a folder or a journal. Raises FormatError, MisuseError."""
    from seqtune.data.dataset import Dataset
    from seqtune.data.formats.dataset_file import read_dataset
    from seqtune.data.journal.journal import Journal

    if path.suffix not in (".sqlite", ".db"):
        return read_dataset(path)
    check_journal(path)
    with Journal(path) as journal:
        return Dataset.from_journal(journal)


def _measured(question: Question, shapes: Mapping[Problem, float], device: Device, deadline: Deadline,
              journal: str | Path | None) -> Dispatched:
    """Dispatch by measuring on a device of this machine."""
    from seqtune.tuner.stop_request import interrupted_by_sigterm

    from .measuring import measuring_on
    from .stages import dispatch_measured

    check_own_journal(journal)
    check_measuring(device, shapes.keys(), instead="; existing times can be used (--data)")
    with interrupted_by_sigterm(), measuring_on(device, journal, deadline) as measuring:
        path = measuring.journal.path
        try:
            return dispatch_measured(question, measuring, shapes)
        except (KeyboardInterrupt, InterruptedTuning):
            raise InterruptedTuning(f"stopped; all measurements are in {path}; run again to go on") from None
        except UnavailableError as error:
            raise DeviceError(f"{device.name} is not available any more ({error}); all measurements are in {path}; run "
                              "again to go on") from None
