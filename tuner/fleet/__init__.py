"""The fleet: one driver searches, many members measure, and one journal gets every record once."""
