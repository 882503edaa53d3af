"""Budget: the default time of a verification. The module imports nothing, because the command line's help reads it."""

SECONDS = 10.0  # including the builds: a few hundred rounds of small problems, a dozen rounds of large ones
