"""Hooks of triton.autotune: predicted configurations instead of a benchmark, and a record of every benchmark."""
