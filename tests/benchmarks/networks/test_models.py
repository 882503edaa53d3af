"""Tests of the networks of the contest: published sizes, equal weights for one seed, answers that can be compared."""

from __future__ import annotations

import pytest
import torch

from benchmarks.networks.architectures import configured, plain
from benchmarks.networks.case import results_of
from benchmarks.networks.models import NETWORKS, seeded
from tests.support.installation.optional import needs, skip_without


def parameters_of(model: torch.nn.Module) -> int:
    """The number of parameters; shared ones count once."""
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_has_the_published_number_of_parameters(name: str) -> None:
    if NETWORKS[name].architecture.startswith("configured:"):
        skip_without("transformers")
    with torch.device("meta"):
        model = NETWORKS[name].build()
    assert parameters_of(model) == NETWORKS[name].parameters


@pytest.mark.parametrize("name", ["SqueezeNet-1.1", "ShuffleNet-V2", "MobileNet-V3-L"])
def test_a_small_network_answers_alike_for_one_seed_and_in_a_range_where_errors_are_seen(name: str) -> None:
    with torch.no_grad():
        (first, inputs), (second, same) = seeded(name), seeded(name)
        answer = first(*inputs)
        assert torch.equal(answer, second(*same))
        assert not first.training
        assert answer.shape == (1, plain.CLASSES)
        assert 0.05 < float(answer.std()) < 5.0
        assert not torch.equal(answer, first(inputs[0].flip(3)))


@needs("transformers")
def test_a_decoded_token_continues_the_prefilled_text() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=50)).eval()
    tokens = torch.randint(50, (1, 9))
    with torch.no_grad():
        whole = results_of(configured.Prefill(model)(tokens))
        start = results_of(configured.Prefill(model)(tokens[:, :8]))
        step = results_of(configured.Decode(model)(tokens[:, 8:], *start[1:]))
    assert [result.shape for result in step] == [(1, 1, 50)] + 4 * [(1, 2, 1, 16)]
    assert torch.allclose(step[0], whole[0], atol=1e-5)
    for new, all_of_them in zip(step[1:], whole[1:], strict=True):
        assert torch.allclose(new, all_of_them[:, :, 8:], atol=1e-5)


