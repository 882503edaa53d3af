from seqtune.integrations.clblast.hook import *  # noqa: F403
