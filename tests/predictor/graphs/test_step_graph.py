"""The ONNX graph of a step scores words as the beam search does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqtune
from seqtune.errors import MissingPackageError, MisuseError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem_sets.sampler import sample_problems
from seqtune.predictor.sequence.beam import Allowed
from seqtune.predictor.sequence.vocabulary import BEGIN
from seqtune.predictor.times.checkpoint import Checkpoint
from tests.support.installation.optional import needs
from tests.support.learning.c_programs import CPU, small_checkpoint

GPU = Device("opencl:gpu", "opencl", "gfx1030", "opencl-c-1.2", compute_units=40, local_memory=65536,
             max_work_group=1024, peak_gflops=9000.0, bandwidth_gbs=400.0)  # some of its facts are unknown words


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return small_checkpoint(CPU)


@needs("torch", "onnx", "onnxscript", "onnxruntime")
@pytest.mark.slow
def test_the_graph_scores_words_as_the_translator_does(checkpoint: Checkpoint, tmp_path: Path) -> None:
    import onnxruntime as runtime

    folder, path = checkpoint.save(tmp_path / "small"), tmp_path / "step.onnx"
    written = seqtune.export(path, "onnx", checkpoint=folder)
    assert written.report["bytes"] == path.stat().st_size
    session = runtime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    metadata = session.get_modelmeta().custom_metadata_map
    assert json.loads(metadata["target_words"]) == list(checkpoint.vocabulary.targets)
    for problem, device in zip(sample_problems("conv2d", 2, 1), (CPU, GPU), strict=True):
        source, source_words = checkpoint.vocabulary.source(problem, device), checkpoint.next_word()
        names = {"names": source.names, "words": source.words, "codes": source.codes, "quantities": source.quantities}
        begin = Allowed(np.zeros(1, np.int64), np.array([BEGIN]), quantities(checkpoint, 1))
        first = Allowed(np.zeros(5, np.int64), np.arange(2, 7), quantities(checkpoint, 5))
        state, expected = source_words.start([(problem, device)], first)
        step = session.run(None, names | prefix([begin]) | following(first))[0]
        assert relative(step, first) == pytest.approx(relative(expected, first), abs=2e-5)
        chosen = first.select([3, 1])  # two hypotheses
        after = np.array([0, 0, 0, 1, 1])
        derived = chosen.resolved[after]
        derived[:, 2] = np.arange(5)
        second = Allowed(after, np.arange(9, 14), derived)
        _, expected = source_words.advance(state, chosen, second)
        both = Allowed(np.arange(2), np.full(2, BEGIN), quantities(checkpoint, 2))
        step = session.run(None, names | prefix([both, chosen]) | following(second))[0]
        assert relative(step, second) == pytest.approx(relative(expected, second), abs=2e-5)


def quantities(checkpoint: Checkpoint, rows: int) -> Any:
    """Derived quantities: none for <begin>, the first two for other words."""
    values = np.full((rows, checkpoint.size.derived), np.nan, np.float32)
    if rows > 2:
        values[:, :2] = np.arange(2 * rows).reshape(rows, 2) / 3
    return values


def prefix(steps: list[Allowed]) -> dict[str, Any]:
    return {"prefix": np.stack([step.words for step in steps], axis=1),
            "prefix_derived": np.stack([step.resolved for step in steps], axis=1)}


def following(allowed: Allowed) -> dict[str, Any]:
    return {"after": allowed.after, "next": allowed.words, "next_derived": allowed.resolved}


def relative(scores: Any, allowed: Allowed) -> Any:
    """Scores less the mean of their hypothesis: they are known up to a constant."""
    means = np.bincount(allowed.after, scores) / np.bincount(allowed.after)
    return scores - means[allowed.after]


def test_wrong_requests_for_a_graph_write_nothing(checkpoint: Checkpoint, tmp_path: Path,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MisuseError, match=r"ends with \.onnx"):
        seqtune.export(tmp_path / "step.pb", "onnx")
    with pytest.raises(MisuseError, match="miopen has no step in ONNX"):
        seqtune.export(tmp_path / "step.onnx", "onnx", checkpoint="miopen")
    folder = checkpoint.save(tmp_path / "small")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name == "torch" or None)
    with pytest.raises(MissingPackageError, match=r"^onnx is not installed: pip install 'seqtune\[onnx\]'$"):
        seqtune.export(tmp_path / "step.onnx", "onnx", checkpoint=folder)
    assert [path.name for path in tmp_path.iterdir()] == ["small"]
