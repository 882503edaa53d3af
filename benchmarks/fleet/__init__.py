"""Programs that run fleets without devices: their faults, and their size."""
