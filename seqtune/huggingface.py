from seqtune.integrations.huggingface.hook import *  # noqa: F403
