"""Figures: the style of all of them, and search curves. Needs matplotlib."""
