"""Hugging Face transformers: importing this module registers the translator with its Auto classes.

    import seqtune.huggingface
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder)
    sentences = seqtune.huggingface.sentences(folder, [task])
    sequences = model.generate(**sentences.arguments(), num_beams=8, num_return_sequences=5)
    configurations, = sentences.configurations(sequences)

`generate` is constrained by the search spaces and gives the beams of `seqtune predict` before its trees reorder them.
Users know this module as `seqtune.huggingface`; it needs `pip install 'seqtune[huggingface]'`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from seqtune.errors import MisuseError, check_installed
from seqtune.kernels.task import Task
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.checkpoint_folder import FORMER, MODEL_TYPE

check_installed("huggingface", "torch", "transformers")

from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM  # noqa: E402

from seqtune.predictor.pretrained import TranslatorConfig, TranslatorModel  # noqa: E402
from seqtune.predictor.translator.sentences import Sentences  # noqa: E402

__all__ = ["Sentences", "TranslatorConfig", "TranslatorModel", "sentences"]

AutoConfig.register(MODEL_TYPE, TranslatorConfig)
AutoModel.register(TranslatorConfig, TranslatorModel)
AutoModelForSeq2SeqLM.register(TranslatorConfig, TranslatorModel)


def sentences(checkpoint: str | Path, tasks: Sequence[Task]) -> Sentences:
    """The valid sentences of these tasks in the words of a checkpoint, given by folder or by name.

    AutoModel reads the newest layer of a retrained checkpoint; tasks of other devices need the folder `former` in it.

    Raises CheckpointError where the folder is not the checkpoint of a translator or lacks a kernel's words, and
    MisuseError where another layer answers for a task.
    """
    loaded = Checkpoint.load(checkpoint)
    for task in tasks:
        if loaded.on(task.device, task.kernels) is not loaded:
            raise MisuseError(f"{checkpoint} was not retrained for {task.device.name}; its subfolder {FORMER} has the "
                              "network that answers there")
    return Sentences(loaded.vocabulary, tasks)
