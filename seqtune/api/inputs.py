"""Inputs: converts and checks the arguments of `seqtune.api` before anything is written."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from seqtune.data.journal.schema import check_regular
from seqtune.kernels.devices.device import Device
from seqtune.kernels.files import cannot_write, check_length, check_path, check_writable
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.networks import NETWORKS
from seqtune.kernels.problem_sets.parse import make_problem, parse_problem, problem_set
from seqtune.tuner.backends import discovery
from seqtune.tuner.measuring.deadline import Deadline

from ..errors import DeviceError, MisuseError, ProblemError, shown

Check = TypeVar("Check", bound=Callable[..., None])
# Endings of the files that seqtune writes, with what such a file holds.
ENDINGS = {".csv": "CSV", ".json": "JSON", ".jsonl": "lines of JSON", ".parquet": "Parquet", ".html": "HTML", ".c": "C"}
# Beginnings of the names that a tool gives to its devices -> whose they are, and our backend, which stands before them
_FOREIGN_NAMES = {"gfx": ("MIOpen's GPU", "miopen")}


def as_problem(problem: object, input_shape: Sequence[int] | None = None) -> Problem:
    """A Problem from any accepted form: a Problem, text, a mapping, or a PyTorch layer with its input's shape.

    Raises ProblemError.
    """
    if isinstance(problem, Problem):
        return problem
    if isinstance(problem, str):
        return parse_problem(problem)
    if isinstance(problem, Mapping):
        kind = problem.get("type")
        if kind is not None and not isinstance(kind, str):
            raise ProblemError(f"the type of a problem is a word, not {str(kind)[:40]!r}")
        return make_problem(kind, {str(name): value for name, value in problem.items() if name != "type"})
    from seqtune.kernels.problem_sets.from_torch import from_module, operation_of

    if operation_of(problem) is not None:
        if input_shape is None:
            raise ProblemError(f"a {type(problem).__name__} needs input_shape, the shape of its input: (batch, "
                               "channels, height, width) for an image")
        return from_module(problem, input_shape)
    raise ProblemError(f"a {type(problem).__name__} is not a problem; give text, a mapping, or a torch.nn.Conv2d or "
                       "Linear with input_shape. Whole networks are for `predict --onnx` and seqtune.pytorch.optimize")


def as_problems(problems: object) -> list[Problem]:
    """Problems from one problem, several, or the name of a set, each in any accepted form. Raises ProblemError."""
    if isinstance(problems, str) and problems.partition(":")[0].lower() in NETWORKS:
        return problem_set(problems)
    return [as_problem(problem) for problem in several(problems)]


def as_device(device: Device | str) -> Device:
    """A Device, given itself or by name; MIOpen's GPUs also with facts (`miopen:gfx906_60`). Raises DeviceError."""
    if not isinstance(device, Device | str):
        raise DeviceError(f"a {type(device).__name__} is not a device; name one (seqtune devices lists them)")
    if isinstance(device, str):
        for beginning, (whose, backend) in _FOREIGN_NAMES.items():
            if device.startswith(beginning):
                raise DeviceError(f"no device {device!r:.60}; {whose} is named {f'{backend}:{device}'!r:.70}")
    return device if isinstance(device, Device) else discovery.find(device)


def several(problems: object) -> list[object]:
    """A list of the problems in an iterable; a single problem gives a list of one.

    >>> several("gemm m=1 n=2 k=3")
    ['gemm m=1 n=2 k=3']
    """
    single = isinstance(problems, str | Mapping | Problem) or not isinstance(problems, Iterable)
    return [problems] if single else list(problems)  # type: ignore[call-overload]


def check_positive(name: str, value: float) -> None:
    """Check that an argument is a positive, finite number. Raises MisuseError with its `name`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= sys.float_info.max:
        raise MisuseError(f"{name}={shown(value)}; it must be a positive number")


def deadline_in(minutes: float | None) -> Deadline:
    """The deadline that many minutes from now; None: none. Raises MisuseError if they are not positive."""
    if minutes is None:
        return Deadline()
    check_positive("minutes", minutes)
    return Deadline(60 * minutes)


def check_flag(name: str, value: object) -> None:
    """Check that an argument is True or False. Raises MisuseError with its `name`."""
    if not isinstance(value, bool):
        raise MisuseError(f"{name}={shown(value)}; it must be True or False")


def check_own_journal(value: object) -> None:
    """Check that a journal can be made or opened at a path; None is the user's own. Raises MisuseError."""
    check_path("journal", value)
    if isinstance(value, str | Path):
        path = Path(value)
        if path.is_dir():
            raise MisuseError(f"journal={str(value)!r:.200} is a folder; name a file")
        if not path.parent.is_dir():
            raise MisuseError(f"the folder of the journal {path} does not exist")


def check_share(name: str, value: float | None) -> None:
    """Check that an argument is a share above 0 and up to 1, or None. Raises MisuseError with its `name`."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1):
        raise MisuseError(f"{name}={shown(value)}; it must be a share of the best speed, above 0 and at most 1")


def check_journal(path: Path) -> None:
    """Check that a journal exists and is not empty, because opening would create it. Raises MisuseError."""
    check_regular(path)
    if not path.exists():
        raise MisuseError(f"no journal {path}; `seqtune tune` makes one")
    if path.is_file() and not path.stat().st_size:
        raise MisuseError(f"the journal {path} holds no trials")


def _refusing_names(check: Check) -> Check:
    """A check of an output that also refuses a name which the file system refuses, such as one of 300 characters."""
    @functools.wraps(check)
    def checked(out: Path, *arguments: Any, **options: Any) -> None:
        try:
            check_length(out)
            check(out, *arguments, **options)
        except OSError as error:
            raise cannot_write(out, error) from None
        except ValueError as error:  # a NUL
            raise MisuseError(f"{str(out)!r:.80} is no file name: {error}") from None

    return checked  # type: ignore[return-value]


@_refusing_names
def check_folder(out: Path) -> None:
    """Check that files can be written into a folder, which may not exist yet. Raises MisuseError, SeqtuneError."""
    if out.exists() and not out.is_dir():
        raise MisuseError(f"{out} is not a folder; name one for the files")
    if not out.parent.is_dir():
        if out.parent.exists():
            raise MisuseError(f"{out.parent} is not a folder, so {out} cannot be made")
        raise MisuseError(f"the folder {out.parent} does not exist")
    check_writable(out if out.is_dir() else out.parent)


@_refusing_names
def check_free(out: Path, force: bool, checkpoint: bool = False) -> None:
    """Check that an output can be written: its folder exists, and it exists itself only with `force`.

    A checkpoint is a folder and replaces only another checkpoint or an empty folder. Raises MisuseError, SeqtuneError.
    """
    if checkpoint and out.name in ("", ".."):
        raise MisuseError(f"{out} cannot be a checkpoint, which is written beside its place and then moved there; name "
                          "another folder")
    if out.exists():
        if checkpoint and not (out / "seqtune.json").is_file() and (not out.is_dir() or any(out.iterdir())):
            raise MisuseError(f"{out} exists and is not a checkpoint; choose another folder")
        if not checkpoint and out.is_dir():
            raise MisuseError(f"{out} is a folder; name a file")
        if not checkpoint and not out.is_file():
            raise MisuseError(f"{out} is not a regular file and cannot be replaced")
        if not force:
            raise MisuseError(f"{out} exists; --force overwrites it")
    if not out.parent.is_dir():
        file = next((parent for parent in out.parents if parent.is_file()), None)
        raise MisuseError(f"the folder {out.parent} does not exist" if file is None else
                          f"{file} is a file, so {out} cannot be written into it")
    check_writable(out.parent)


def check_ending(out: Path, content: str, *endings: str) -> None:
    """Refuse an output whose name ends as that of another kind of file. `endings` are its own. Raises MisuseError."""
    ending = out.suffix.lower()
    if ending in ENDINGS and ending not in endings:
        advice = f"that ends with {endings[0]}" if endings else "with another ending"
        raise MisuseError(f"{out.name:.80} is named as {ENDINGS[ending]}, but {content} would be written into it; "
                          f"choose a name {advice}")


def check_predictable(problem: Problem, device: Device | str) -> None:
    """Refuse a recorded problem on a device given by name: only its data know which configurations are valid.

    Raises MisuseError.
    """
    if problem.type == "recorded" and isinstance(device, str):
        raise MisuseError("the valid configurations of a recorded problem are not known here: in Kernel Tuner, "
                          "strategy(\"predictor\", checkpoint=...) proposes some; to predict without it, declare the "
                          "kernel in a library and name it (--library)")
