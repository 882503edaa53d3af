from seqtune.integrations.inductor.hook import *  # noqa: F403
