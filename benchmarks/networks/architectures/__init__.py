"""Architectures of the contest: those that transformers has by its configurations, the others as published."""
