"""ProcessGroup: the processes of one data-parallel training, as torchrun starts them.

Every process has the same weights and draws the same examples; of each batch it computes the loss of its part alone.
The gradients are summed over the processes, weighted by the parts, so that a step is that of one process, up to the
rounding and to dropout, whose random numbers differ (data parallelism with synchronous steps; Li et al., "PyTorch
Distributed", VLDB 2020). Process 0 alone reports and writes files, and its validation counts.
"""

from __future__ import annotations

import atexit
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

import torch
from torch import Tensor, distributed, nn

from seqtune.errors import MisuseError

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # that torchrun sets


class ProcessGroup:
    """This process among the processes of a training; a group of one changes nothing."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size
        self.interrupted = False  # Ctrl-C came; the next step of all processes raises KeyboardInterrupt

    def part(self, count: int) -> tuple[slice, float]:
        """The part of `count` examples that this process computes, and its share of the batch's mean.

        A process for which nothing is left computes the first example too, with a share of 0: it draws what all draw.
        """
        begin, end = count * self.rank // self.size, count * (self.rank + 1) // self.size
        return (slice(begin, end), (end - begin) / count) if begin < end else (slice(0, 1), 0.0)

    def sum_gradients(self, model: nn.Module, loss: Tensor, weight: float) -> float:
        """Replace the gradients by their weighted sum over all processes, and return that of the losses.

        `loss` is the mean of this process's part and `weight` the part's share of the batch. Raises KeyboardInterrupt
        in all processes if Ctrl-C came to one of them.
        """
        if self.size == 1:
            return float(loss.detach())
        weights = [tensor for tensor in model.parameters() if tensor.requires_grad]
        numbers = [torch.zeros_like(tensor) if tensor.grad is None else tensor.grad * weight for tensor in weights]
        total = torch.tensor([float(loss.detach()) * weight, float(self.interrupted)])
        message = torch.cat([*(number.flatten() for number in numbers), total])
        distributed.all_reduce(message)
        if message[-1] > 0:
            raise KeyboardInterrupt
        parts = torch.split(message[:-2], [tensor.numel() for tensor in weights])
        for tensor, number in zip(weights, parts, strict=True):
            tensor.grad = number.view_as(tensor)
        return float(message[-2])

    def agreed(self, figures: Mapping[str, float]) -> dict[str, float]:
        """The figures of process 0; each process gives the same names in the same order."""
        if self.size == 1:
            return dict(figures)
        numbers = torch.tensor(list(figures.values()), dtype=torch.float64)
        distributed.broadcast(numbers, 0)
        return dict(zip(figures, numbers.tolist(), strict=True))

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.size > 1:
            distributed.barrier()


def rank_here() -> int:
    """The number of this process among those of torchrun; 0 if it was not started by torchrun.

    Raises MisuseError if torchrun's variables contradict each other.
    """
    return _ranks()[0]


def is_alone() -> bool:
    """Whether torchrun did not start several processes. Raises MisuseError as `rank_here` does."""
    return _ranks()[1] == 1


def check_alone(why: str) -> None:
    """Raise MisuseError, with the reason, if torchrun started several processes."""
    if _ranks()[1] > 1:
        raise MisuseError(f"{why}; start this without torchrun")


def _ranks() -> tuple[int, int]:
    present = [name for name in VARIABLES if name in os.environ]
    if "WORLD_SIZE" not in present:
        return 0, 1
    missing = ", ".join(name for name in VARIABLES if name not in present)
    if missing:
        raise MisuseError(f"WORLD_SIZE is set, but not {missing}; start the training with torchrun")
    try:
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except ValueError:
        rank, size = -1, 0
    if not 0 <= rank < size:
        raise MisuseError(f"RANK={os.environ['RANK']!r:.20} and WORLD_SIZE={os.environ['WORLD_SIZE']!r:.20} are not "
                          "those of torchrun")
    return rank, size


@contextmanager
def process_group() -> Iterator[ProcessGroup]:
    """Join the processes that torchrun started, over gloo; without torchrun, a group of this process alone.

    In a larger group, Ctrl-C only sets `interrupted`, since a process that left a step alone would stop the others.
    """
    rank, size = _ranks()
    group = ProcessGroup(rank, size)
    if size == 1:
        yield group
        return

    def note(number: int, frame: FrameType | None) -> None:
        group.interrupted = True

    if not distributed.is_initialized():  # once: a second group might read the addresses of the first one
        distributed.init_process_group("gloo", rank=rank, world_size=size)
        atexit.register(distributed.destroy_process_group)
    former = signal.signal(signal.SIGINT, note)
    try:
        yield group
    finally:
        signal.signal(signal.SIGINT, former)
