from seqtune.integrations.pytorch.hook import *  # noqa: F403
