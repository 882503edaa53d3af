"""Conditions of a training: its packages, and a process that is one of several."""

from __future__ import annotations

import pytest

from seqtune import errors
from seqtune.errors import MissingPackageError, MisuseError
from seqtune.predictor.training.conditions import PROCESSES, check_can_train
from tests.support.installation.optional import TRAINING, needs

pytestmark = needs(*TRAINING)


@pytest.mark.parametrize("variable", PROCESSES)
def test_a_training_is_one_process(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "1")
    check_can_train()
    for several in ("2", "x"):
        monkeypatch.setenv(variable, several)
        with pytest.raises(MisuseError, match=f"{variable}='{several}' says that there are several"):
            check_can_train()


@pytest.mark.parametrize(("package", "title"), [
    ("torch", "PyTorch"), ("transformers", "Hugging Face transformers"), ("accelerate", "Hugging Face accelerate")])
def test_a_missing_package_is_named_with_the_extra_that_brings_it(
        package: str, title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "is_installed", lambda name: name != package)
    with pytest.raises(MissingPackageError) as raised:
        check_can_train()
    assert str(raised.value) == f"{title} is not installed: pip install 'seqtune[train]'"
