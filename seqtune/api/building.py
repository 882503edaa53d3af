"""The verb `build`: a kernel with the configuration that suits a problem, as a folder of files or as a function."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.say import Say, silent
from seqtune.kernels.task import Task
from seqtune.tuner.building.built_kernel import BuiltKernel, built_kernel
from seqtune.tuner.building.chosen import Chosen, check_free, files_of, write_folder
from seqtune.tuner.remembered import remembered_winners

from ..errors import CheckpointError, KernelError, MisuseError, shown
from .inputs import as_device, as_problem, as_problems
from .predicting import predict
from .question import Question
from .results import BuiltFolder

SHOWN = 5  # proposals that `predict` lists where nothing else is asked for; --proposal counts in this list
MOST_PROPOSALS = 1000  # as --top


def build(problem: object, device: Device | str = "llvm:0", proposal: int | None = None, *,
          input_shape: Sequence[int] | None = None, checkpoint: str | Path | None = None,
          journal: str | Path | None = None) -> BuiltKernel:
    """Build a kernel for a problem: a function of NumPy arrays or PyTorch tensors.

    Without a `proposal`, the configuration that won a comparison in the journal is built, else the first proposal; with
    one, it is the row of this number in the answer of `predict`. The device need not be here: then the source can be
    read and saved. Raises MisuseError, KernelError where no kernel solves the problem, SeqtuneError where the compiler
    refuses the source.
    """
    return built_kernel(_choose(as_problem(problem, input_shape), as_device(device), proposal, checkpoint, journal))


def build_folder(problems: object, device: Device | str, out: str | Path, proposal: int | None = None, *,
                 checkpoint: str | Path | None = None, journal: str | Path | None = None,
                 progress: Say = silent) -> BuiltFolder:
    """Write the kernels of one or several problems to a new folder, whole or not at all.

    The arguments are those of `build`; `problems` may be a set's name, too. Of several problems, those that no kernel
    solves are left out. Raises what `build` does, and MisuseError if the folder exists or cannot be written.
    """
    wanted, device, folder = list(dict.fromkeys(as_problems(problems))), as_device(device), Path(out)
    check_free(folder)
    kernels: list[Chosen] = []
    left_out: list[tuple[Problem, str]] = []
    for number, problem in enumerate(wanted, 1):
        progress(f"choosing {number}/{len(wanted)}: {problem.brief()}")
        try:
            kernels.append(_choose(problem, device, proposal, checkpoint, journal))
        except KernelError as error:
            if len(wanted) == 1:
                raise
            left_out.append((problem, str(error)))
    if not kernels:
        raise MisuseError(f"no kernel solves any of the {len(wanted)} problems on {device.name}: {left_out[0][1]}"
                          if left_out else "no problem is given")
    progress(f"building {len(kernels)} kernels" if len(kernels) > 1 else f"building {kernels[0].name}")
    files = files_of(kernels)
    write_folder(files, folder)
    return BuiltFolder(folder, device, tuple(kernels), tuple(sorted(files)), tuple(left_out))


def _choose(problem: Problem, device: Device, proposal: int | None, checkpoint: str | Path | None,
            journal: str | Path | None) -> Chosen:
    """The configuration to build: of the journal, or the proposal of a number. Raises MisuseError, KernelError."""
    if proposal is None:
        winner = remembered_winners([problem], device, journal).get(problem)
        if winner is not None:
            seconds, default = winner.verdict.typical, winner.verdict.default
            return Question(problem, device, winner.described, seconds.get(default)).chosen(
                winner.configuration, seconds.get(winner.configuration))
    elif isinstance(proposal, bool) or not isinstance(proposal, int) or not 1 <= proposal <= MOST_PROPOSALS:
        raise MisuseError(f"proposal={shown(proposal)}; it is the number of a row of `predict`, from 1 to "
                          f"{MOST_PROPOSALS}")
    number = proposal or 1
    try:
        answer = predict(problem, device, max(SHOWN, number), checkpoint=checkpoint, journal=journal)
    except CheckpointError:
        if checkpoint is None:  # a mistake in a library's sources must not hide behind the missing checkpoint
            built_kernel(Question(problem, device, "the default", None).chosen(Task.of(problem, device).default, None))
        raise
    if number > len(answer.candidates):
        raise MisuseError(f"there is no proposal {number}: {problem.brief()} has {len(answer.candidates)} on "
                          f"{device.name}")
    candidate = answer.candidates[number - 1]
    assert candidate.question is not None  # every answer's have one
    return candidate.question.chosen(candidate.configuration, candidate.seconds)
