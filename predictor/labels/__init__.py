"""Models learned from labels: the configurations that another tuner chose."""
