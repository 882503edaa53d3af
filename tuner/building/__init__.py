"""Building: a kernel with its best configuration as a folder of files that need nothing of this package."""
