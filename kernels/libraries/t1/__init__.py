"""T1: the input format of Kernel Tuner and BAT, read as the document of a library."""
