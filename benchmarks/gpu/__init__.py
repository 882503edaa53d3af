"""A day with a GPU: checks, measurements, peers, training and what is brought home."""
