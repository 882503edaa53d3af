"""Loss: the difference between a translator's next words and the wanted ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from seqtune.kernels.task import Floats

from ...sequence.vocabulary import Sentence, SourceBatch
from ...translator.judge import list_loss
from ...translator.translator import Choices, Listed, Source, Translator
from .targets import Landscape, TargetSentences


def sentence_loss(model: Translator, sources: Sequence[Sentence], targets: TargetSentences,
                  anchor: Translator | None = None, anchored: Floats | None = None,
                  landscapes: Sequence[Landscape] | None = None) -> Tensor:
    """The mean loss of target sentences in nats: the KL divergence from the wanted next words, summed over steps.

    With `landscapes`, one for each source, the judge's list loss is added.

    Each source has equally many sentences, in order. `anchored` (sentence,) is the share of the anchor's predictions in
    the wanted probabilities (learning without forgetting, Li and Hoiem 2016), and of its judge's estimates in the
    wanted slowness of the source's landscape.
    """
    positions = targets.sentence * targets.words.shape[1] + targets.step
    _, rows, lengths = np.unique(positions, return_inverse=True, return_counts=True)
    free = lengths[rows] > 1  # a forced word has no loss
    choices = Choices(*map(torch.from_numpy, (positions[free], targets.word[free], targets.quantities[free])))
    read = (Source.of(SourceBatch.of(sources)), torch.from_numpy(targets.inputs),
            torch.from_numpy(targets.inputs_resolved), choices)
    listed = None if landscapes is None else _listed(landscapes)
    scores, estimate = model.scores_and_slowness(*read, listed)
    steps = torch.from_numpy(np.cumsum(lengths > 1)[rows[free]] - 1)  # (row,) index of its free step
    count, share = int((lengths > 1).sum()), torch.from_numpy(targets.share[free])
    anchor_estimate: Tensor | None = None
    if anchor is not None and anchored is not None:
        with torch.no_grad():
            predicted, anchor_estimate = anchor.scores_and_slowness(*read, listed)
            predicted = (predicted - _log_sums(predicted, steps, count)[steps]).exp()
        part = torch.from_numpy(anchored[targets.sentence[free]]).to(share.dtype)
        share = share + part * (predicted.to(share.dtype) - share)
    least = torch.xlogy(share, share).sum()
    wanted = (share * scores).sum() - _log_sums(scores, steps, count).sum()  # shares of one step sum to 1
    loss: Tensor = (least - wanted) / len(targets.words)
    if estimate is not None and landscapes is not None:
        slowness, weight = _slowness(landscapes)
        if anchor_estimate is not None and anchored is not None:  # its mean is arbitrary: the slowness keeps its own
            part = torch.from_numpy(anchored.reshape(len(slowness), -1)[:, :1]).to(slowness.dtype)
            distance = (anchor_estimate - slowness) * weight
            slowness = slowness + part * (distance - weight * distance.sum(1, keepdim=True)
                                          / weight.sum(1, keepdim=True))
        loss = loss + list_loss(estimate, slowness, weight)
    return loss


def judge_loss(model: Translator, sources: Sequence[Sentence], landscapes: Sequence[Landscape]) -> Tensor:
    """The judge's mean list loss for the sources' landscapes; the rest of the model has no gradient."""
    source = Source.of(SourceBatch.of(sources))
    with torch.no_grad():
        states, vectors = model.read(source), model.target(source.quantities)
    return list_loss(model.slowness(states, source.mask, vectors, _listed(landscapes)), *_slowness(landscapes))


def _listed(landscapes: Sequence[Landscape]) -> Listed:
    return Listed(torch.from_numpy(np.stack([landscape.words for landscape in landscapes])),
                  torch.from_numpy(np.stack([landscape.resolved for landscape in landscapes])))


def _slowness(landscapes: Sequence[Landscape]) -> tuple[Tensor, Tensor]:
    """The slowness and the weights of the landscapes' configurations, (source, configuration) each."""
    return (torch.from_numpy(np.stack([landscape.slowness for landscape in landscapes])),
            torch.from_numpy(np.stack([landscape.weight for landscape in landscapes])))


def _log_sums(scores: Tensor, steps: Tensor, count: int) -> Tensor:
    """The log of the sum of exp of each step's scores, (step,); `scores` and `steps` are (row,)."""
    highest = scores.new_full((count,), -torch.inf).scatter_reduce(0, steps, scores.detach(), "amax")
    return scores.new_zeros(count).index_add(0, steps, (scores - highest[steps]).exp()).log() + highest
