"""The command line: commands, their arguments, the tables they print and the progress they show."""

from . import commands
from .application import app

__all__ = ["app", "commands"]
