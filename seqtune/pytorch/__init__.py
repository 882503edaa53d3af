"""Whole networks on CPUs: the names of seqtune.integrations.pytorch.hook."""

from seqtune.integrations.pytorch.hook import *  # noqa: F403
