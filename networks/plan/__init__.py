"""The plan of a network: the element type, the layout and the memory of each value, and bands of a batch."""
