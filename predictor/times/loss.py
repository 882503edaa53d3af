"""Loss: how far a translator's next words are from the wanted ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from seqtune.kernels.task import Floats

from ..sequence.vocabulary import Batch, Sentence
from .targets import Examples
from .translator import Choices, Source, Translator


def sentence_loss(model: Translator, sources: Sequence[Sentence], examples: Examples, anchor: Translator | None = None,
                  anchored: Floats | None = None) -> Tensor:
    """Nats per sentence above the least possible: the divergence of the next words from the wanted ones, summed over
    steps. Each source has equally many sentences, in order. `anchored` (sentence,) is how much of what is wanted the
    anchor says (learning without forgetting, Li and Hoiem 2016)."""
    place = examples.sentence * examples.words.shape[1] + examples.step
    _, rows, lengths = np.unique(place, return_inverse=True, return_counts=True)
    free = lengths[rows] > 1  # a forced word teaches nothing
    choices = Choices(*map(torch.from_numpy, (place[free], examples.word[free], examples.quantities[free])))
    read = (Source.of(Batch.of(sources)), torch.from_numpy(examples.inputs), torch.from_numpy(examples.inputs_settled),
            choices)
    scores = model(*read)
    steps = torch.from_numpy(np.cumsum(lengths > 1)[rows[free]] - 1)  # (row,) number of its free step
    count, share = int((lengths > 1).sum()), torch.from_numpy(examples.share[free])
    if anchor is not None and anchored is not None:
        with torch.no_grad():
            known = anchor(*read)
            known = (known - _log_sums(known, steps, count)[steps]).exp()
        part = torch.from_numpy(anchored[examples.sentence[free]]).to(share.dtype)
        share = share + part * (known.to(share.dtype) - share)
    least = torch.xlogy(share, share).sum()
    wanted = (share * scores).sum() - _log_sums(scores, steps, count).sum()  # shares of one step sum to 1
    loss: Tensor = (least - wanted) / len(examples.words)
    return loss


def _log_sums(scores: Tensor, steps: Tensor, count: int) -> Tensor:
    """log sum exp of each step's scores. (row,), (row,) -> (step,)"""
    highest = scores.new_full((count,), -torch.inf).scatter_reduce(0, steps, scores.detach(), "amax")
    return scores.new_zeros(count).index_add(0, steps, (scores - highest[steps]).exp()).log() + highest
