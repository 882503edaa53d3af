"""Budget: what a verification may take where its user does not say. Imports nothing: the command line's help shows it.
"""

SECONDS = 10.0  # building included: a few hundred rounds of small problems, a dozen of large ones
