"""Inductor with predicted configurations: the names of seqtune.integrations.inductor.hook."""

from seqtune.integrations.inductor.hook import *  # noqa: F403
