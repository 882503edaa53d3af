"""Learning from measured times and from the choices of other tuners."""
