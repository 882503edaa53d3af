"""Budget: the default time of a verification. The module imports nothing, because the command line's help reads it."""

SECONDS = 10.0  # including the builds: a few hundred rounds of small problems, a dozen rounds of large ones
CALIBRATION = 180.0  # seconds of a calibration: some 4000 probes, of which a correction uses a thousand
