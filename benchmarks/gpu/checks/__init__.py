"""Checks that numbers are right, before anything is timed."""
