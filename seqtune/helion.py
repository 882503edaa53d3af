from seqtune.integrations.helion.hook import *  # noqa: F403
