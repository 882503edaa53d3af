"""Training of every network: the Trainer, and the state from which a training resumes."""
