"""Launches: the code of a kernel as data: its source, its arguments and the steps of one run."""
