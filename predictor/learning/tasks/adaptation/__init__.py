"""Adaptation of a checkpoint of measured times to new records."""
