"""NumpyTranslator gives the probabilities of the PyTorch model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Constraint, Kernel, Parameter
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.task import Task
from seqtune.predictor.sequence.beam import beam_search_many
from seqtune.predictor.sequence.vocabulary import Vocabulary
from seqtune.predictor.translator import numpy_translator
from seqtune.predictor.translator.numpy_layers import Dimensions, Linear
from seqtune.predictor.translator.numpy_translator import NumpyTranslator
from seqtune.predictor.translator.translator import Translator
from seqtune.predictor.translator.word_vectors import shapes
from tests.support.learning.translators import Compared, NetworkWords, draw_norms, small_translator
from tests.support.synthetic import DIRECT, MIDDLE, WIDE

GEMMS = ("gemm m=64 n=48 k=20", "gemm m=1 n=1000 k=512 trans_b=yes")
CONVOLUTIONS = ("conv2d c=64 h=56 k=48 r=3", "conv2d c=30 h=14 k=32 r=1",
                "conv2d c=3 h=28 k=8 r=5 stride_h=2 stride_w=2")
SIZES = [{"width": 32, "heads": 2, "layers": 1, "hidden": 64}, {"width": 48, "heads": 4, "layers": 3, "hidden": 40},
         {"width": 32, "heads": 2, "layers": 3, "decoder_layers": 1, "hidden": 64}]
OTHER = Kernel("fake.other", "conv2d", ("fake",), (
    Parameter("vector", (1, 2)), Parameter("tile_k", (3, 5, 6)), Parameter("order", ("rows",))),
    (Constraint.of("tile_k <= k", "wide"),), (), derived=(("lanes", Expression("vector * tile_k")),))
PRODUCT = Kernel("fake.product", "gemm", ("fake",), (
    Parameter("tile_m", (1, 2, 4, 8)), Parameter("tile_n", (1, 3, 4)), Parameter("order", ("rows", "columns"))), (), (),
    derived=(("waste", Expression("round_up(m, tile_m) / m")), ("lanes", Expression("tile_m * tile_n"))))
KERNELS = (DIRECT, OTHER, PRODUCT)
VOCABULARY = Vocabulary.build(KERNELS, [WIDE])
TASKS = [Task.of(parse_problem(text), device, KERNELS) for text in CONVOLUTIONS + GEMMS for device in (WIDE, MIDDLE)]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_arrays_give_the_probabilities_of_the_model(size: dict[str, int]) -> None:
    torch.manual_seed(0)
    model = Translator.of(VOCABULARY, **size)
    draw_norms(model)
    compared = Compared(NetworkWords(model, VOCABULARY), NumpyTranslator(model.size, model.arrays(), VOCABULARY))
    beam_search_many(compared, TASKS, 20, 20)  # many problems at once, with sources of different lengths
    for task in TASKS[::3]:
        beam_search_many(compared, [task], 20, 20)
    assert compared.compared > 1000
    assert compared.worst < 1e-4


def test_a_known_fact_is_remembered_and_changes_nothing() -> None:
    model = small_translator(VOCABULARY)
    words = NumpyTranslator(model.size, model.arrays(), VOCABULARY)
    first, again = (beam_search_many(words, TASKS[:1], 4, 4) for _ in range(2))
    assert first == again


def test_few_sets_of_quantities_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_translator(VOCABULARY)
    words = NumpyTranslator(model.size, model.arrays(), VOCABULARY)
    first = beam_search_many(words, TASKS, 4, 4)
    kept = len(words._matrices)
    assert 1 < kept <= numpy_translator.MOST_MATRICES
    monkeypatch.setattr(numpy_translator, "MOST_MATRICES", 1)
    again = beam_search_many(words, TASKS, 4, 4)
    assert first == again
    other = NumpyTranslator(model.size, model.arrays(), VOCABULARY)
    assert beam_search_many(other, TASKS, 4, 4) == first
    assert len(other._matrices) == 1


def test_a_linear_map_of_no_rows_has_no_rows() -> None:
    linear = Linear(np.ones((3, 2), np.float32), np.ones(2, np.float32))
    assert linear(np.zeros((0, 3), np.float32)).shape == (0, 2)
    assert linear(np.zeros((4, 0, 3), np.float32)).shape == (4, 0, 2)


@pytest.mark.parametrize("size", [*SIZES, SIZES[0] | {"judge": 8}], ids=str)
def test_the_shapes_of_a_state_are_computed_without_torch(size: dict[str, int]) -> None:
    model = Translator(Dimensions.of(VOCABULARY, **size))
    assert shapes(model.size) == {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
