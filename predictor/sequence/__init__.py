"""What all models of sentences share: vocabulary, constrained beam search, numeric codes."""
