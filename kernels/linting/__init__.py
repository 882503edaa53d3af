"""Linting: checks of a declared library on sample problems, with the location of every finding."""
