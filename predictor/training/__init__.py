"""Training of every network: the loop, the learning rate, and the state from which it resumes."""
