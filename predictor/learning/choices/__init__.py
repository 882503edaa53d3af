"""Learning from the configurations that another tuner chose."""
