"""Learning: from data to a checkpoint, and how good it is; a folder for each kind of data."""
