"""The translator for transformers: the names of seqtune.integrations.huggingface.hook."""

from seqtune.integrations.huggingface.hook import *  # noqa: F403
