"""The translator as a Hugging Face model: AutoModel loads it, and `generate` finds the beams of our own search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from seqtune.errors import CheckpointError, MisuseError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Constraint, Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.checkpoint_folder import find
from seqtune.predictor.sequence.beam import beam_search
from seqtune.predictor.sequence.vocabulary import BEGIN, SourceBatch, Vocabulary
from seqtune.predictor.translator.translator import Choices, Source, Translator
from tests.support.installation.optional import needs
from tests.support.learning.translators import small_translator

pytestmark = needs("transformers")  # loaded by the tests alone: it takes a second in each process that collects them

DEVICE = Device("toy:a", "toy", "arch1", "simd", threads=2, vector_bits=512)
DIRECT = Kernel("toy.direct", "conv2d", ("toy",), tuple(
    Parameter(name, values) for name, values in (
        ("tile_w", (1, 2, 4, 7, 14)), ("vector", (4, 8, 16)), ("order", ("a", "b")), ("unroll", (1, 2, 4)))),
    (Constraint.of("tile_w <= row_w", "too wide"),), (("tile_w", 1),),
    derived=(("lanes", Expression("vector * unroll")),
             ("waste", Expression("ceil_div(row_w, tile_w) * tile_w / row_w"))))
SHORT = Kernel("toy.short", "conv2d", ("toy",), (Parameter("vector", (4, 8)),), (), (("vector", 4),))
GEMM = Kernel("toy.gemm", "gemm", ("toy",), (Parameter("tile_m", (1, 2, 8)),), (), (("tile_m", 1),))
VOCABULARY = Vocabulary.build([DIRECT, SHORT, GEMM], [DEVICE])
CONVOLUTIONS = [Problem.make("conv2d", c=64, h=size, w=size, k=48, r=3, s=3) for size in (9, 16, 56)]
TASKS = [*(Task.of(problem, DEVICE, [DIRECT, SHORT]) for problem in CONVOLUTIONS),
         Task.of(Problem.make("gemm", m=64, n=30, k=7), DEVICE, [GEMM])]


@pytest.fixture
def translator() -> Translator:
    return small_translator(VOCABULARY, 32, layers=2).eval()


def assert_same_beams(folder: Path, tasks: Sequence[Task], width: int) -> None:
    """Check that `generate` finds the results of our beam search, with the same log-probabilities."""
    import transformers

    from seqtune import huggingface

    model, checkpoint = transformers.AutoModel.from_pretrained(folder), Checkpoint.load(folder)
    sentences = huggingface.sentences(folder, tasks)
    answer = model.generate(**sentences.arguments(), num_beams=width, num_return_sequences=width,
                            return_dict_in_generate=True, output_scores=True)
    scores = answer.sequences_scores.view(len(tasks), width).tolist()
    for task, found, logs in zip(tasks, sentences.configurations(answer.sequences), scores, strict=True):
        candidates = beam_search(checkpoint.next_word(), task, width, width)
        assert found == [candidate.configuration for candidate in candidates]
        assert logs[:len(found)] == pytest.approx([candidate.log_probability for candidate in candidates], abs=1e-3)


@pytest.mark.parametrize("width", [2, 8, 30])
def test_generate_gives_our_beams_for_several_problems_at_once(
        translator: Translator, tmp_path: Path, width: int) -> None:
    """The matrix product has fewer configurations than the wider beams, and kernels have sentences of two lengths."""
    assert_same_beams(Checkpoint.of_translator(translator, VOCABULARY).save(tmp_path / "toy"), TASKS, width)


def test_generate_gives_our_beams_with_the_shipped_checkpoint() -> None:
    device = Device("llvm:avx512:2", "llvm", "rocketlake", "avx512", threads=2, compute_units=2, vector_bits=512,
                    vector_registers=32, l1_bytes=32768, l2_bytes=1 << 20, l3_bytes=1 << 25, peak_gflops=200.0,
                    bandwidth_gbs=20.0)
    problems = [Problem.make("conv2d", c=64, h=56, w=56, k=64, r=3, s=3, pad_h=1, pad_w=1),
                Problem.make("conv2d", c=96, h=14, w=14, k=96, r=3, s=3, pad_h=1, pad_w=1, groups=96),
                Problem.make("gemm", m=128, n=256, k=96)]
    assert_same_beams(find("default"), [Task.of(problem, device) for problem in problems], 8)


def test_other_models_and_generating_without_sentences_are_refused(translator: Translator, tmp_path: Path) -> None:
    from seqtune import huggingface

    with pytest.raises(CheckpointError):
        huggingface.sentences("miopen", TASKS)
    former = Checkpoint.of_translator(translator, VOCABULARY)
    folder = replace(former, former=former, retrained_for=frozenset({"another"})).save(tmp_path / "toy")
    with pytest.raises(MisuseError, match="was not retrained for toy:a; its subfolder former"):
        huggingface.sentences(folder, TASKS)
    huggingface.sentences(folder / "former", TASKS)
    source = Source.of(SourceBatch.of([VOCABULARY.source(CONVOLUTIONS[0], DEVICE)]))
    with pytest.raises(MisuseError, match="needs the valid sentences"):
        huggingface.TranslatorModel.of(translator).generate(
            **source._asdict(), decoder_start_token_id=BEGIN, max_length=5, use_cache=False)


def inputs() -> tuple[Source, torch.Tensor, torch.Tensor, torch.Tensor]:
    """A source per convolution, two words, their derived quantities, and those of every possible next word."""
    source = Source.of(SourceBatch.of([VOCABULARY.source(problem, DEVICE) for problem in CONVOLUTIONS]))
    generator = torch.Generator().manual_seed(0)
    count, targets, derived = len(CONVOLUTIONS), len(VOCABULARY.targets), len(VOCABULARY.derived)
    return (source, torch.full((count, 2), BEGIN), torch.randn((count, 2, derived), generator=generator),
            torch.randn((count, 2, targets, derived), generator=generator))


def test_the_pretrained_model_and_the_checkpoint_read_each_other(translator: Translator, tmp_path: Path) -> None:
    import transformers

    from seqtune import huggingface

    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    source, words, resolved, following = inputs()
    targets = len(VOCABULARY.targets)
    choices = Choices(torch.arange(words.numel()).repeat_interleave(targets),
                      torch.arange(targets).repeat(words.numel()), following.flatten(0, 2))
    Checkpoint.of_translator(translator, VOCABULARY).save(ours)
    pretrained = transformers.AutoModelForSeq2SeqLM.from_pretrained(ours).eval()
    assert list(pretrained.state_dict()) == list(translator.state_dict())
    with torch.inference_mode():
        wanted = translator(source, words, resolved, choices)
        logits = pretrained(*source, decoder_input_ids=words, resolved=resolved, following=following).logits
        torch.testing.assert_close(logits.flatten(), wanted)
        huggingface.TranslatorModel.of(translator).save_pretrained(theirs)
        (theirs / "seqtune.json").write_bytes((ours / "seqtune.json").read_bytes())
        torch.testing.assert_close(Checkpoint.load(theirs).network(source, words, resolved, choices), wanted)


def test_the_pretrained_model_trains_the_translator_itself(translator: Translator) -> None:
    from seqtune import huggingface

    model = huggingface.TranslatorModel.of(translator).train()
    assert translator.source.training
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = translator.target.word.weight.detach().clone()
    source, words, resolved, following = inputs()
    model(*source, decoder_input_ids=words, resolved=resolved, following=following).logits.square().sum().backward()
    optimizer.step()
    assert not torch.equal(before, translator.target.word.weight)
    assert model.translator is translator
