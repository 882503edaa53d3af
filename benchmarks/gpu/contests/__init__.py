"""Contests of our proposals with libraries and compilers."""
