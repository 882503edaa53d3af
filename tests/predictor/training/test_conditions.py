"""Conditions of a training: a process that is one of several is refused."""

from __future__ import annotations

import pytest

from seqtune.errors import MisuseError
from seqtune.predictor.training.conditions import PROCESSES, check_can_train
from tests.support.installation.optional import needs

pytestmark = needs("torch", "transformers", "accelerate")


@pytest.mark.parametrize("variable", PROCESSES)
def test_a_training_is_one_process(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "1")
    check_can_train()
    for several in ("2", "x"):
        monkeypatch.setenv(variable, several)
        with pytest.raises(MisuseError, match=f"{variable}='{several}' says that there are several"):
            check_can_train()
