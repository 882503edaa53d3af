"""Devices: their facts, element types, accelerators, and the limits of GPUs."""
