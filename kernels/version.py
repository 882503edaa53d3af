"""The version of this package, which keys of caches contain and machines of a fleet compare."""

VERSION = "0.2.0"
