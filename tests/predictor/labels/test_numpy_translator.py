"""NumpyTranslator gives the probabilities of the PyTorch model, and never proposes an invalid configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from seqtune.data.labels import Labels
from seqtune.data.queries import Queries
from seqtune.kernels.devices.device import Device
from seqtune.kernels.miopen.solver import SOLVERS, find_solver
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.predictor.labels.numpy_translator import NumpyTranslator, shapes
from seqtune.predictor.labels.translator import LabelTranslator, LabelWords
from seqtune.predictor.sequence.beam import Allowed, Scores, beam_search_many
from seqtune.predictor.sequence.vocabulary import Vocabulary
from seqtune.predictor.translator.dimensions import Dimensions
from seqtune.predictor.translator.rows import gelu
from tests.support.interpreter import loaded_after
from tests.support.learning.greedy import Greedy
from tests.support.learning.miopen_problems import draw, gpus, solved
from tests.support.tasks import task_of

KERNELS = [find_solver(name).kernel for name in SOLVERS if "GTC" not in name]  # the others get their rows from labels
SIZES = [{"width": 32, "heads": 2, "layers": 1, "hidden": 64}, {"width": 48, "heads": 4, "layers": 3, "hidden": 40},
         {"width": 32, "heads": 2, "layers": 2, "decoder_layers": 1, "hidden": 64}]


class Both:
    """A source of next words that compares the log-probabilities of the PyTorch model and of its arrays."""

    def __init__(self, size: dict[str, int]) -> None:
        torch.manual_seed(0)
        built = Vocabulary.build(KERNELS, gpus(), listed="facts")
        self.vocabulary = Vocabulary(built.names, built.words, built.targets, built.kernels)
        self.model = LabelTranslator(Dimensions.of(self.vocabulary, **size), self.vocabulary)
        for name, weight in self.model.named_parameters():
            if "norm" in name or "coded" in name:  # training starts them at ones and zeros
                torch.nn.init.normal_(weight, mean=float(name.endswith("weight")), std=0.3)
        self._model = LabelWords(self.model, self.vocabulary)
        self._arrays = NumpyTranslator(self.model.size, self.model.arrays(), self.vocabulary)
        self.worst, self.compared = 0.0, 0

    def start(self, queries: Sequence[tuple[Problem, Device]], allowed: Allowed) -> tuple[Any, Scores]:
        return self._compare(self._model.start(queries, allowed), self._arrays.start(queries, allowed), allowed)

    def advance(self, state: Any, said: Allowed, allowed: Allowed) -> tuple[Any, Scores]:
        return self._compare(self._model.advance(state[0], said, allowed),
                             self._arrays.advance(state[1], said, allowed), allowed)

    def _compare(self, model: tuple[Any, Scores], arrays: tuple[Any, Scores], allowed: Allowed) -> tuple[Any, Scores]:
        differences = np.abs(logs(model[1], allowed) - logs(arrays[1], allowed))
        self.worst = max(self.worst, float(differences.max()))
        self.compared += len(differences)
        return (model[0], arrays[0]), model[1]


def logs(scores: Scores, allowed: Allowed) -> NDArray[np.float64]:
    """The log-probabilities among the words that may follow the same hypothesis."""
    rows = [scores[allowed.after == hypothesis].astype(np.float64) for hypothesis in np.unique(allowed.after)]
    return np.concatenate([row - row.max() - np.log(np.exp(row - row.max()).sum()) for row in rows])


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_arrays_give_the_probabilities_of_the_model(size: dict[str, int]) -> None:
    both, generator = Both(size), np.random.default_rng(1)
    columns = draw(3000, generator)
    tasks = []
    for kernel in KERNELS:
        for problem, device in solved(kernel, columns, gpus(), 2, generator):
            rivals = (rival for rival in KERNELS[:5] if rival != kernel and rival.why_not(problem, device) is None)
            tasks.append(task_of(*(SearchSpace(solver, problem, device) for solver in (kernel, *rivals))))
    tasks = [task for task in tasks if len(task)]
    beam_search_many(both, tasks[::2], 4, 4)  # many queries at once,
    for task in tasks[1::8]:  # and one at a time
        beam_search_many(both, [task], 4, 4)
    queries = solved(KERNELS[0], columns, gpus(), 50, generator)
    Greedy(both).predict(Labels(KERNELS[0], Queries.of(queries), np.zeros((len(queries), 8), np.int16)), 1)
    assert both.compared > 5000
    assert both.worst < 1e-4


def test_the_shapes_of_a_state_are_computed_without_torch() -> None:
    for size in SIZES:
        model = Both(size).model
        assert shapes(model.size) == {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}


def test_the_gelu_of_arrays_uses_the_normal_distribution() -> None:
    x = np.linspace(-12, 12, 20001, dtype=np.float32)
    wanted = torch.nn.functional.gelu(torch.from_numpy(x).double()).numpy()
    assert np.abs(gelu(x) - wanted).max() < 1e-6


def test_predicting_miopens_parameters_loads_neither_torch_nor_pandas() -> None:
    code = "import seqtune\nseqtune.predict('conv2d c=64 h=28 k=96 r=3', device='miopen:gfx906_60')"
    assert not loaded_after(code) & {"torch", "transformers", "pandas", "pyarrow", "xgboost"}
