"""How sure a prediction is, and why it was made."""
