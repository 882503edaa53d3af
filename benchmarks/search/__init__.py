"""How good search strategies are."""
