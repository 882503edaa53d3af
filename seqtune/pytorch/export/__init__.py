"""Exported graphs become functional: no operation of them changes a tensor."""
