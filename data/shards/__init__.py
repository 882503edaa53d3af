"""Shards: data sets of any length, in one file or a folder of files, which are read in batches."""
