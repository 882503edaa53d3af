"""triton.autotune with predicted configurations: the names of seqtune.integrations.triton.hook."""

from seqtune.integrations.triton.hook import *  # noqa: F403
