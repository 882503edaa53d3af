"""Budget: the default times of a verification and of a calibration.

The module imports nothing, because the command line's help reads it.
"""

SECONDS = 10.0  # of a verification, builds included: a few hundred rounds of small problems, a dozen of large ones
CALIBRATION = 180.0  # of a calibration: about 4000 probes; a correction is fitted to 800 of all measurements
