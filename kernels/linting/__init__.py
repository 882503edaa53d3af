"""Linting: checks of a declared library on sample problems, with the places of what is suspicious."""
