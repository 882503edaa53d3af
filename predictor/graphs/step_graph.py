"""StepGraph: the network of a translator as an ONNX graph, for those who want their own runtime.

The graph scores the words that may follow some hypotheses of one problem. It is stateless: every call reads the source
and the whole prefixes. Search spaces, constraints and the beam are the caller's.
Shapes: S source positions, H hypotheses, T words read, R words to be scored, D derived quantities, Q quantities.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from seqtune.kernels.files import replacing

from ..networks.dimensions import Dimensions
from ..sequence.vocabulary import BEGIN
from ..times.checkpoint import Checkpoint
from ..times.translator import Choices, Source, Translator

# Inputs, in order, with the letters of the axes whose length a caller chooses; all others are fixed by the checkpoint.
INPUTS: Mapping[str, str] = {"names": "S", "words": "S", "codes": "S", "quantities": "", "prefix": "HT",
                             "prefix_derived": "HT", "after": "R", "next": "R", "next_derived": "R"}
OUTPUT = "scores"
OPSET = 20  # the oldest that has Gelu


class StepGraph(nn.Module):
    """The function that the graph computes."""

    def __init__(self, translator: Translator) -> None:
        super().__init__()
        self.translator = translator

    def forward(self, names: Tensor, words: Tensor, codes: Tensor, quantities: Tensor, prefix: Tensor,
                prefix_derived: Tensor, after: Tensor, following: Tensor, following_derived: Tensor) -> Tensor:
        """The scores (R,) of the words `following`, log-probabilities up to a constant for each hypothesis.

        `names` and `words` (S,), `codes` (S, code) and `quantities` (Q,) are those of the source sentence; `prefix`
        (H, T) are words that begin with <begin>; `after` (R,) is the hypothesis that a word follows; `prefix_derived`
        (H, T, D) and `following_derived` (R, D) are log2 of the derived quantities that a word resolves, else NaN.
        """
        source = Source(names[None], words[None], codes[None], torch.ones_like(names, dtype=torch.bool)[None],
                        quantities[None])
        length = prefix.shape[1]
        choices = Choices(after * length + length - 1, following, following_derived)
        scores: Tensor = self.translator(source, prefix, prefix_derived, choices)
        return scores


def write_step_graph(checkpoint: Checkpoint, out: Path) -> dict[str, str | int]:
    """Write the graph of the newest layer of a checkpoint to one file, as a whole or not at all.

    The file's metadata hold the vocabulary. Needs the packages of the extra `onnx`. Raises SeqtuneError if the file
    cannot be written.
    """
    size, vocabulary = checkpoint.size, checkpoint.vocabulary
    graph = StepGraph(Translator.of_arrays(size, checkpoint.state)).eval()
    axes = [dict.fromkeys(range(len(letters)), torch.export.Dim.DYNAMIC) for letters in INPUTS.values()]
    quiet = logging.root.manager.disable
    logging.disable(logging.WARNING)  # torch.onnx warns about packages of images
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                graph, _example(size), dynamo=True, verbose=False, opset_version=OPSET, input_names=list(INPUTS),
                output_names=[OUTPUT], dynamic_shapes=tuple(axes))
    finally:
        logging.disable(quiet)
    assert program is not None
    program.model.metadata_props.update({
        "source_names": json.dumps(vocabulary.names), "source_words": json.dumps(vocabulary.words),
        "target_words": json.dumps(vocabulary.targets), "quantities": json.dumps(vocabulary.quantities),
        "derived": json.dumps(vocabulary.derived)})
    with replacing(out) as scratch:
        program.save(scratch, external_data=False)
    return {"inputs": ", ".join(INPUTS), "bytes": out.stat().st_size}


def _example(size: Dimensions) -> tuple[Tensor, ...]:
    """Inputs that show their types: no length is 0 or 1, and no tensor stands twice, since torch.export fixes these."""
    positions, hypotheses, length, count = 7, 3, 4, 5
    return (torch.zeros(positions, dtype=torch.int64), torch.zeros(positions, dtype=torch.int64),
            torch.zeros(positions, size.code), torch.zeros(size.quantities), torch.full((hypotheses, length), BEGIN),
            torch.full((hypotheses, length, size.derived), torch.nan), torch.zeros(count, dtype=torch.int64),
            torch.full((count,), BEGIN), torch.full((count, size.derived), torch.nan))
