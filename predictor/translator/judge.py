"""Judge: a network that estimates the slowness of whole configurations, from the translator's own vectors.

The beam's next words are chosen one by one. The judge reads a finished sentence at once: the sum of its words' vectors,
the codes of all its derived quantities, and the mean of the encoder's states. It is trained on whole landscapes: lists
of configurations of one problem with their measured times (a list-wise loss: ListNet, Cao et al. 2007), among them the
fast ones that are hard to tell apart. Since it needs no decoder, hundreds of configurations cost little.
Shapes: B sources, N configurations of each, T words, W width, D derived quantities, H hidden width.
"""

from __future__ import annotations

import warnings

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .numpy_layers import Dimensions
from .quantity_codes import resolved_numbers
from .transformer import ByteDropout
from .word_vectors import RESOLVED_SIZE

TEMPERATURES = (0.03, 0.15)  # of lists: about the noise of times, and the spread of a space's faster half
BEND = 0.1  # of Huber's loss, in log(time / best)


class Judge(nn.Module):
    """Estimates log(time / best time) of configurations up to a constant of their problem."""

    def __init__(self, size: Dimensions) -> None:
        super().__init__()
        with warnings.catch_warnings():  # about a layer without inputs, where no kernel has derived quantities
            warnings.filterwarnings("ignore", "Initializing zero-element tensors")
            self.quantity = nn.Linear(size.derived * RESOLVED_SIZE, size.judge)
        self.words = nn.Linear(size.width, size.judge, bias=False)
        self.problem = nn.Linear(size.width, 2 * size.judge)
        self.inner = nn.Linear(size.judge, size.judge)
        self.outer = nn.Linear(size.judge, size.judge)
        self.slowness = nn.Linear(size.judge, 1)
        self.drop = ByteDropout(size.dropout)

    def forward(self, sums: Tensor, quantities: Tensor, states: Tensor, mask: Tensor) -> Tensor:
        """Estimate the slowness of configurations: (B, N).

        `sums` (B, N, W) are sums of the words' vectors, `quantities` (B, N, D) log2 of all derived quantities (NaN for
        those that a kernel lacks), `states` (B, S, W) the encoder's, of which `mask` (B, S) tells the real ones.
        """
        weights = mask[..., None].to(states.dtype)
        problem = (states * weights).sum(1) / weights.sum(1)
        first, second = self.problem(problem)[:, None].chunk(2, dim=-1)
        x = F.gelu(self.quantity(resolved_numbers(quantities)) + self.words(sums) + first)
        x = x + self.drop(F.gelu(self.inner(x) + second))
        x = x + self.drop(F.gelu(self.outer(x)))
        estimate: Tensor = self.slowness(x)[..., 0]
        return estimate


def list_loss(estimate: Tensor, slowness: Tensor, weight: Tensor) -> Tensor:
    """The mean loss of lists of estimates (B, N) against their true slowness log(time / best), (B, N).

    The first part is ListNet's: the divergence between the softmax of both at each of TEMPERATURES. The second
    part, Huber's with a bend at BEND, keeps the scale of the estimates: it compares them less their mean. `weight`
    (B, N) is 0 for padding.
    """
    hidden = torch.where(weight > 0, 0.0, -torch.inf)
    lists = estimate.new_zeros(len(estimate))
    for temperature in TEMPERATURES:
        wanted = torch.softmax(hidden - slowness / temperature, dim=1)
        predicted = torch.log_softmax(hidden - estimate / temperature, dim=1)
        predicted = torch.where(weight > 0, predicted, 0.0)
        lists = lists + (torch.xlogy(wanted, wanted) - wanted * predicted).sum(1)
    total = weight.sum(1, keepdim=True)
    shift = ((estimate - slowness) * weight).sum(1, keepdim=True) / total
    distance = F.huber_loss(estimate - shift, slowness, reduction="none", delta=BEND)
    scaled = (distance * weight).sum(1) / total[:, 0]
    loss: Tensor = (lists + scaled / BEND).mean()
    return loss
