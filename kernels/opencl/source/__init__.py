"""Generators of OpenCL C that the families share."""
