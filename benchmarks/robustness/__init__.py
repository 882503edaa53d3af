"""Programs that try to break seqtune: malformed files, faults."""
