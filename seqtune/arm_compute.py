"""Arm Compute Library with a dispatch: the names of seqtune.integrations.arm_compute.hook."""

from seqtune.integrations.arm_compute.hook import *  # noqa: F403
