from seqtune.integrations.pytorch.hook.dynamo import *  # noqa: F403
