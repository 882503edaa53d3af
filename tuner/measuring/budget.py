"""Budget: the default times of a verification, of a network and of a calibration, and how far they may be exceeded.

The module imports nothing, because the command line's help reads it.
"""

SECONDS = 10.0  # of a verification, builds included: a few hundred rounds of small problems, a dozen of large ones
NETWORK = 60.0  # of the verification of a PyTorch network; enough for some 20 layers
CALIBRATION = 180.0  # of a calibration: about 4000 probes; a correction is fitted to 800 of all measurements
OVERRUN = 1.2  # factor on a budget at which measuring is broken off. A user may rely on 1.3 times the budget; the time
#                between is for ending a worker and writing the records
