"""Helion with predicted configurations: the names of seqtune.integrations.helion.hook."""

from seqtune.integrations.helion.hook import *  # noqa: F403
