"""Spaces: fast enumeration of the valid configurations of one kernel for many problems."""
