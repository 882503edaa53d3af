from seqtune.integrations.triton.hook import *  # noqa: F403
