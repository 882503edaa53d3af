"""The version of this package, on which caches of every floor depend."""

VERSION = "0.1.0"
