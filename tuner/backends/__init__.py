"""Backends build a kernel for a device and run it."""
