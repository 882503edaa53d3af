"""Word forms: what a word of a command stands for, such as `"{variant}.c"`, over all values of the parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product

from seqtune.errors import ExpressionError, FormatError

from ..expression import Expression
from ..launches.command_declaration import OUTPUT, filled, names_in
from .document import KernelDocument

MOST_FORMS = 1000  # of one word


def word_forms(document: KernelDocument, word: str) -> list[str] | str:
    """The forms of a word, or the reason why they are not known. A word that names what is built has none."""
    if "{" + OUTPUT + "}" in word:
        return []
    names = names_in(word)
    if not names:
        return [word]
    derived = {name: Expression(text) for name, text in document.derived.items()}
    read = _names_read(set(names), derived)
    values = {name: document.parameters[name].values for name in read if name in document.parameters}
    count = math.prod(map(len, values.values()))
    if count > MOST_FORMS:
        return f"it has {count} forms"
    if not read <= document.parameters.keys() | derived.keys():
        return "it depends on more than the parameters"
    used = {name: expression for name, expression in derived.items() if name in read}
    forms = (_form(word, dict(zip(values, chosen, strict=True)), used) for chosen in product(*values.values()))
    return [form for form in forms if form is not None]


def _form(word: str, known: dict[str, object], derived: Mapping[str, Expression]) -> str | None:
    """The word with these values of parameters; None for values that no configuration has, or if nothing is left."""
    try:
        for name, expression in derived.items():
            known[name] = expression(known)
        return next(iter(filled([word], known)), None)
    except (ExpressionError, FormatError):
        return None


def _names_read(names: set[str], derived: Mapping[str, Expression]) -> set[str]:
    """The names, and those that derived quantities among them read."""
    for name, expression in reversed(list(derived.items())):
        if name in names:
            names = names | set(expression.names)
    return names
