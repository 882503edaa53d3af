"""The measuring worker: a process that builds, checks and times kernels, and its parent's side of the exchange."""
