"""Other tools' files, read and written: one file a format."""
