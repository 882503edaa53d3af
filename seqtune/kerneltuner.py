"""Kernel Tuner with our strategies: the names of seqtune.integrations.kernel_tuner.hook.strategy."""

from seqtune.integrations.kernel_tuner.hook.strategy import *  # noqa: F403
