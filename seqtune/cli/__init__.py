"""The command line: commands, their arguments, the tables they print and the progress they show.

`app` is the application with all commands; a command is registered when its module is imported.
"""

from . import commands, exchange_commands, learning_commands, report_command
from .application import app

__all__ = ["app", "commands", "exchange_commands", "learning_commands", "report_command"]
