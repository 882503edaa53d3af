"""The capture of a model as a functional graph: its examples, its weights, and the export itself."""
