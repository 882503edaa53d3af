"""CLBlast with predicted parameters: the names of seqtune.integrations.clblast.hook."""

from seqtune.integrations.clblast.hook import *  # noqa: F403
