"""Corrections of predictions by what was measured on the device."""
