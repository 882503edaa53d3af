"""The hook of Kernel Tuner: our strategies, and a checkpoint's proposals to begin with."""
