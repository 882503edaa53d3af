from seqtune.integrations.kernel_tuner.hook.strategy import *  # noqa: F403
