"""Data sets of any length, which are read in batches: in one file, or in a folder of files."""
