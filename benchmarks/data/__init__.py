"""How the shipped data set is measured."""
