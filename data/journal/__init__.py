"""The journal: records on disk that survive a crash, in SQLite."""
