"""Changes of a network's nodes that keep its results."""
