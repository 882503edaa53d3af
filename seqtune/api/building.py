"""The verb `build`: a kernel with the configuration that suits a problem, as files or as a function; and `demo`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.networks import network
from seqtune.kernels.say import Say, silent
from seqtune.kernels.task import Task
from seqtune.predictor.predictors import named_predictor
from seqtune.tuner.building.built_kernel import BuiltKernel, built_kernel
from seqtune.tuner.building.chosen import Chosen, check_free, files_of, write_folder
from seqtune.tuner.measuring.deadline import SECONDS
from seqtune.tuner.remembered import remembered_winners

from ..errors import CheckpointError, FormatError, KernelError, MisuseError, SeqtuneError, shown
from .inputs import as_device, as_problem, as_problems, check_positive
from .listing import devices
from .predicting import predict
from .question import Question
from .results import BuiltFolder, Demonstration

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


def demo(seconds: float = SECONDS, *, out: str | Path | None = None, checkpoint: str | Path | None = None,
         journal: str | Path | None = None, progress: Say = silent) -> Demonstration:
    """Predict and verify two ResNet-18 layers on every device found, and build the first one to a new folder `out`."""
    check_positive("seconds", seconds)
    if out is not None:
        check_free(Path(out))
    if checkpoint is not None:
        named_predictor(checkpoint)
    listing = devices()
    unavailable = dict(listing.unavailable)
    predictions = []
    layers = network("resnet18")
    for problem in (layers[1], layers[8]):  # 3x3 filters on 64 channels of 56x56, and on 256 of 14x14
        for _, device in listing.listed:
            def say(step: str, problem: Problem = problem, device: Device = device) -> None:
                progress(f"{problem.brief()} on {device.name}: {step}")

            try:
                predictions.append(predict(problem, device, verify=True, seconds=seconds, checkpoint=checkpoint,
                                           journal=journal, progress=say))
            except FormatError:  # the journal is damaged, which concerns every device
                raise
            except SeqtuneError as error:
                unavailable[device.name] = str(error)
    if not predictions:
        reasons = "; ".join(f"{name}: {why}" for name, why in unavailable.items())
        raise SeqtuneError(f"nothing could be shown: {reasons}")
    first = predictions[0]
    folder = None if out is None else build_folder(first.problem, first.device, out, checkpoint=checkpoint,
                                                   journal=journal, progress=progress)
    return Demonstration(tuple(predictions), unavailable, folder)
