"""The command line: commands, their arguments, the tables they print and the progress they show."""
