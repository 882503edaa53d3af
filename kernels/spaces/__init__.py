"""How the valid configurations of one kernel are found quickly for many problems."""
