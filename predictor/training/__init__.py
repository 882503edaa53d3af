"""What all training shares: the loop, the learning rate and the state it resumes from."""
