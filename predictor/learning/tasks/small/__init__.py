"""Learning from few problems: the checks of the data, the options, and the cross-validation."""
