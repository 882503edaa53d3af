"""The backend of torch.compile: the names of seqtune.integrations.pytorch.hook.dynamo."""

from seqtune.integrations.pytorch.hook.dynamo import *  # noqa: F403
