"""Fixed words, and facts that share positions: NumpyTranslator gives the probabilities of the PyTorch model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from seqtune.integrations.miopen.kernels.solver import SOLVERS, find_solver
from seqtune.integrations.miopen.predictor.labels import Labels, Queries
from seqtune.integrations.miopen.predictor.training import FIXED_WORDS
from seqtune.kernels.space import SearchSpace
from seqtune.predictor.sequence.beam import beam_search_many
from seqtune.predictor.sequence.vocabulary import Vocabulary
from seqtune.predictor.translator.numpy_translator import NumpyTranslator
from seqtune.predictor.translator.translator import Translator
from tests.support.interpreter import loaded_after
from tests.support.learning.greedy import Greedy
from tests.support.learning.miopen_problems import draw, gpus, solved
from tests.support.learning.translators import Compared, NetworkWords, draw_norms
from tests.support.tasks import task_of

KERNELS = [find_solver(name).kernel for name in SOLVERS if "GTC" not in name]  # the others get their rows from labels
SIZES = [{"width": 32, "heads": 2, "layers": 1, "hidden": 64}, {"width": 48, "heads": 4, "layers": 3, "hidden": 40},
         {"width": 32, "heads": 2, "layers": 2, "decoder_layers": 1, "hidden": 64}]


def translator(size: dict[str, int]) -> tuple[Translator, Vocabulary]:
    built = Vocabulary.build(KERNELS, gpus(), listed="facts")
    vocabulary = Vocabulary(built.names, built.words, built.targets, built.kernels)
    torch.manual_seed(0)
    return Translator.of(vocabulary, **FIXED_WORDS, **size), vocabulary


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_arrays_give_the_probabilities_of_the_model(size: dict[str, int]) -> None:
    (model, vocabulary), generator = translator(size), np.random.default_rng(1)
    draw_norms(model)
    compared = Compared(NetworkWords(model, vocabulary), NumpyTranslator(model.size, model.arrays(), vocabulary))
    columns = draw(3000, generator)
    tasks = []
    for kernel in KERNELS:
        for problem, device in solved(kernel, columns, gpus(), 2, generator):
            rivals = (rival for rival in KERNELS[:5] if rival != kernel and rival.why_not(problem, device) is None)
            tasks.append(task_of(*(SearchSpace(solver, problem, device) for solver in (kernel, *rivals))))
    tasks = [task for task in tasks if len(task)]
    beam_search_many(compared, tasks[::2], 4, 4)  # many queries at once,
    for task in tasks[1::8]:  # and one at a time
        beam_search_many(compared, [task], 4, 4)
    queries = solved(KERNELS[0], columns, gpus(), 50, generator)
    Greedy(compared).predict(Labels(**vars(Queries.of(queries)), kernel=KERNELS[0],
                                     value_indices=np.zeros((len(queries), 8), np.int16)))
    assert compared.compared > 5000
    assert compared.worst < 1e-4


def test_predicting_miopens_parameters_loads_neither_torch_nor_pandas() -> None:
    code = "import seqtune\nseqtune.predict('conv2d c=64 h=28 k=96 r=3', device='miopen:gfx906_60')"
    assert not loaded_after(code) & {"torch", "transformers", "pandas", "pyarrow", "xgboost"}
