"""Hooks: where other software asks. The documented name of each is a module of `seqtune` itself."""
