"""Search strategies propose configurations and are told results."""
