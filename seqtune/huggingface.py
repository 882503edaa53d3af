"""Hugging Face transformers: importing this module registers the translator with its Auto classes.

    import seqtune.huggingface
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder)
    sentences = seqtune.huggingface.sentences(folder, [task])
    sequences = model.generate(**sentences.arguments(), num_beams=8, num_return_sequences=5)
    configurations, = sentences.configurations(sequences)

`generate` is constrained by the search spaces and gives the beams of `seqtune predict` before its trees reorder them.
It needs `pip install 'seqtune[huggingface]'`.
"""

from .hooks.huggingface import Sentences, TranslatorConfig, TranslatorModel, sentences

__all__ = ["Sentences", "TranslatorConfig", "TranslatorModel", "sentences"]
