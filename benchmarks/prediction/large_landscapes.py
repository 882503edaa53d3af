"""Large landscapes: search spaces of up to a million configurations, with a time for each configuration.

Nothing was measured in them but CLBlast's matrix product on two GPUs. Elsewhere the time is a cost: that of the
analytic model, or of a formula. The methods that are compared do not see the cost's terms: their kernels have
parameters only. Training problems have the times of a few random configurations, with noise; judged problems have other
sizes, and the cost of every configuration. The recorded landscapes are completed instead: a few of their times are
known, and all are judged.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seqtune.data.formats.recorded_spaces import read_recorded
from seqtune.data.measured_tasks import measured_tasks
from seqtune.errors import FormatError, MisuseError
from seqtune.kernels.devices.accelerators import described
from seqtune.kernels.devices.device import Device
from seqtune.kernels.devices.occupancy import blocks_per_unit
from seqtune.kernels.files import read_bounded
from seqtune.kernels.kernel import Constraint, Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Floats, MeasuredTask, Task
from seqtune.tuner.cost_models.analytic import terms_of

from .clblast_tiles import with_facts, with_tiles

Cost = Callable[[SearchSpace], Floats]  # seconds of every configuration of a space
Pair = tuple[Task, Task]  # a task as the methods see it, and with the quantities that its cost reads

LARGEST_FILE = 1_000_000  # bytes of the definitions
KNOWN = 400  # configurations of a training problem whose time is known
CANDIDATES = 6000  # configurations of a training problem that the translator sees; trees estimate the other times
NOISE = 0.03  # standard deviation of the logarithm of a known cost; that of single trials
GPUS = ("a100", "rtx-2080-ti", "rtx-4090", "h100")
HOPPER = ("h100", "h200", "h20", "h800")  # the largest spaces of our own GPU kernels
STEPS = 60  # of the simulated heat flow
FLOP = 15  # of one step of one point


@dataclass(frozen=True)
class LargeSpaces:
    """Landscapes of one kind: some to learn from, some to judge."""

    name: str
    times: str  # where the times come from, as the page says it
    training: Callable[[], list[MeasuredTask]]  # with a few known times
    judged: Callable[[], Iterator[MeasuredTask]]  # with all times, one after another: they are large


def own_gemm(problems: int, judged: int) -> LargeSpaces:
    """Our own matrix products for GPUs; the cost is the analytic model's."""
    sizes = _sizes(problems + judged, (256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192))

    def pairs(chosen: Sequence[tuple[int, int, int]]) -> Iterator[Pair]:
        for index, (m, n, k) in enumerate(chosen):
            device = described("cuda", HOPPER[index % len(HOPPER)])
            assert device is not None
            twin = Task.of(Problem.make("gemm", m=m, n=n, k=k, dtype="fp16"), device)
            yield replace(twin, spaces=tuple(_twin(space, replace(space.kernel, derived=()))
                                             for space in twin.spaces)), twin

    return LargeSpaces("own_gemm", "analytic model",
                       lambda: [_learnt(*pair, _analytic) for pair in pairs(sizes[judged:])],
                       lambda: (_whole(*pair, _analytic) for pair in pairs(sizes[:judged])))


def defined(folder: Path, name: str, problems: int, judged: int) -> LargeSpaces:
    """A kernel of definitions.json on grids or squares of many sizes: `gemm_milo` or `hotspot_milo`."""
    kernel = defined_kernel(folder, name)
    times, described_kernel, cost = (("analytic model", with_tiles(kernel), _analytic) if name == "gemm_milo"
                                     else ("formula", kernel, heat_seconds))
    sizes = _sizes(problems + judged, tuple(range(512, 8193, 128)))

    def pairs(chosen: Sequence[tuple[int, int, int]]) -> Iterator[Pair]:
        for index, (width, height, _) in enumerate(chosen):
            model = GPUS[index % len(GPUS)]
            device = with_facts(Device(f"recorded:{model}", "recorded", "nvidia", "none"))
            problem = Problem.make("recorded", kernel=name, size_x=width,
                                   size_y=width if name == "gemm_milo" else height)  # the definition's are square
            task = Task.of(problem, device, [kernel])
            yield task, replace(task, spaces=tuple(_twin(space, described_kernel) for space in task.spaces))

    return LargeSpaces(name, times, lambda: [_learnt(*pair, cost) for pair in pairs(sizes[judged:])],
                       lambda: (_whole(*pair, cost) for pair in pairs(sizes[:judged])))


def recorded_gemm(folder: Path) -> LargeSpaces:
    """CLBlast's matrix product as it was measured on two GPUs: a small space, but real times."""
    path = folder / "gemm_rtx.parquet"
    if not path.is_file():
        raise MisuseError(f"{path} is missing: --recorded names a folder of recorded spaces")
    data = read_recorded(path)
    tasks = [_on_gpu(measured.measured_only()) for measured in measured_tasks(data, held_out=False)]
    return LargeSpaces("gemm_rtx", "recorded", lambda: [_partly(task) for task in tasks],
                       lambda: iter(tasks))


def defined_kernel(folder: Path, name: str) -> Kernel:
    """A kernel that definitions.json describes. Raises MisuseError if there is no such file, FormatError."""
    path = folder / "definitions.json"
    if not path.is_file():
        raise MisuseError(f"{path} is missing: --recorded names a folder with definitions of large spaces")
    try:
        content = json.loads(read_bounded(path, LARGEST_FILE))[name]
        parameters = [Parameter(str(entry["name"]), tuple(map(int, entry["values"]))) for entry in content["params"]]
        constraints = [Constraint.of(text, "a restriction of the kernel's author") for text in content["restrictions"]]
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path} does not define {name}: {error!r:.100}") from None
    return Kernel(f"recorded.{name}", "recorded", ("recorded",), tuple(parameters), tuple(constraints), (), name)


def heat_seconds(space: SearchSpace) -> Floats:
    """The cost of STEPS of heat flow (configuration,): a formula of halo work, memory, occupancy and launches.

    A block holds a tile and its halo in shared memory, and advances it by several steps in one launch; each step
    computes a ring less of the halo.
    """
    columns, device, problem = space.columns(), space.device, space.problem
    threads = columns["block_size_x"] * columns["block_size_y"]
    wide, high = (columns[f"block_size_{axis}"] * columns[f"tile_size_{axis}"] for axis in "xy")
    steps, unrolled = columns["temporal_tiling_factor"], columns["loop_unroll_factor_t"]
    blocks = -(-problem.size("size_x") // wide) * -(-problem.size("size_y") // high)
    held = (wide + 2 * steps) * (high + 2 * steps)  # points with the halo
    points = (wide + steps) * (high + steps) * steps  # computed in a launch: the mean ring of the halo each step
    resident = blocks_per_unit(device, threads, 24 + 3 * held // threads, 4 * (2 + columns["sh_power"]) * held)
    occupied = np.minimum(1.0, resident * threads / 1024)  # fewer threads do not hide the latency of shared memory
    waves = np.ceil(blocks / np.maximum(1, resident * device.compute_units)) * np.maximum(1, resident)
    issue = 1 + 0.5 / unrolled + 0.2 * (1 - columns["sh_power"])  # of a point: index arithmetic, loads of the power
    arithmetic = waves * points * FLOP * issue / (
        device.peak_gflops * 1e9 / device.compute_units * np.maximum(occupied, 1e-3))
    coalesced = np.minimum(1.0, columns["block_size_x"] / 32)
    memory = blocks * 4 * (2 * held + wide * high) / (device.bandwidth_gbs * 1e9 * np.maximum(coalesced, 1 / 8))
    launch = (arithmetic ** 3 + memory ** 3) ** (1 / 3) + 3e-6
    return np.where(resident > 0, launch * -(-STEPS // steps), np.inf)


def _analytic(space: SearchSpace) -> Floats:
    return terms_of(space).seconds


def _twin(space: SearchSpace, kernel: Kernel) -> SearchSpace:
    """The same configurations of a kernel with other derived quantities."""
    return SearchSpace.of_rows(kernel, space.problem, space.device, space.rows)


def _sizes(count: int, lengths: Sequence[int]) -> list[tuple[int, int, int]]:
    """Distinct triples of lengths, always the same."""
    generator = np.random.default_rng(count)
    sizes: dict[tuple[int, int, int], None] = {}
    while len(sizes) < count:
        m, n, k = generator.choice(lengths, 3).tolist()
        sizes.setdefault((m, n, k))
    return list(sizes)


def _whole(task: Task, twin: Task, cost: Cost) -> MeasuredTask:
    return MeasuredTask(task, np.concatenate([cost(space) for space in twin.spaces]))


def _learnt(task: Task, twin: Task, cost: Cost) -> MeasuredTask:
    """The training task: some of the configurations, of which a few have a noisy cost."""
    keep = _chosen(task, CANDIDATES, 0)
    return _partly(_whole(task.narrowed(keep), twin.narrowed(keep), cost), noise=NOISE)


def _partly(measured: MeasuredTask, noise: float = 0.0) -> MeasuredTask:
    """The task with KNOWN times only."""
    generator = np.random.default_rng(_seed(measured.task))
    known = _chosen(measured.task, KNOWN, 1)
    seconds = measured.seconds * np.exp(generator.normal(0, noise, len(known))) if noise else measured.seconds
    return MeasuredTask(measured.task, np.where(known, seconds, np.nan))


def _chosen(task: Task, count: int, stream: int) -> NDArray[np.bool_]:
    """A mask of `count` random configurations of a task, always the same ones."""
    keep = np.zeros(len(task), np.bool_)
    generator = np.random.default_rng([_seed(task), stream])
    keep[generator.choice(len(task), min(count, len(task)), replace=False)] = True
    return keep


def _seed(task: Task) -> int:
    return zlib.crc32(f"{task.problem.key} {task.device.key}".encode())


def _on_gpu(measured: MeasuredTask) -> MeasuredTask:
    """The recorded task on its device with the facts of the GPU of that name."""
    device = with_facts(measured.device)
    spaces = tuple(SearchSpace.of_rows(space.kernel, space.problem, device, space.rows)
                   for space in measured.task.spaces)
    return MeasuredTask(Task(measured.problem, device, spaces), measured.seconds)
