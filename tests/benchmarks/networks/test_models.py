"""Tests of the networks of the contest: published sizes, equal weights for one seed, answers that can be compared."""

from __future__ import annotations

import pytest
import torch

from benchmarks.networks.architectures import plain
from benchmarks.networks.models import NETWORKS, seeded
from tests.support.installation.optional import skip_without


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
