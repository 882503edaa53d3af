"""SourceColumns: the sentences of many queries are those that the vocabulary makes of each."""

from __future__ import annotations

from typing import Any

import numpy as np

from seqtune.integrations.miopen.kernels.gpus import device
from seqtune.integrations.miopen.predictor.source_columns import SourceColumns
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.predictor.sequence.vocabulary import SourceBatch, Vocabulary

MI50, VEGA = device("gfx906_60"), device("gfx900_56")
BARE = Device("miopen:gfx000_1", "miopen", "gfx000", "gfx000", compute_units=1)  # lacks facts of the others
KNOWN: dict[str, Any] = {"n": 4, "c": 64, "k": 96, "r": 3, "s": 3, "pad_h": 1, "pad_w": 1, "stride_h": 2, "stride_w": 2}
PROBLEMS = [Problem.make("convnd", **KNOWN, h=55, w=56, direction="backward_data", dtype="fp16"),
            Problem.make("convnd", **KNOWN, h=None, w=None, out_h=28, out_w=27, direction="backward_weights"),
            Problem.make("convnd", **KNOWN, h=56, w=56), Problem.make("convnd", c=3, h=7, w=9, k=5, r=1, s=1, n=257)]


def test_columns_make_the_sentences_that_the_vocabulary_makes() -> None:
    vocabulary = Vocabulary.build([], [MI50, VEGA], listed="facts")
    pairs = [(problem, gpu) for gpu in (MI50, BARE, VEGA) for problem in PROBLEMS]
    batch = SourceColumns.of(pairs, vocabulary).batch(np.arange(len(pairs)))
    wanted = SourceBatch.of([vocabulary.source(problem, gpu) for problem, gpu in pairs])
    for name in ("names", "words", "mask", "positions"):
        np.testing.assert_array_equal(getattr(batch, name), getattr(wanted, name), err_msg=name)
    np.testing.assert_allclose(batch.codes, wanted.codes, atol=1e-6)
    assert batch.mask.shape[1] < batch.names.shape[1] / 3  # facts share positions
