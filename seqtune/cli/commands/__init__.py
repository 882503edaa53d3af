"""The commands, in modules named as those of `seqtune.api`.

A command parses its words, calls one public function and shows the answer. Answers go to stdout (tables, or one JSON
object with --json), progress to stderr. Nothing heavy is imported before a command runs, so `--help` is quick.
"""

# A command is registered when its module is imported: the order here is the order of `seqtune --help`.
from . import listing, predicting, building, tuning, dispatching  # noqa: F401, I001
from . import demonstration, exchanging, learning, evaluating  # noqa: F401
