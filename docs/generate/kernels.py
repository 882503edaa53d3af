"""The page of the kernel families, from what `seqtune kernels --json` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seqtune.api import kernel_json, kernels

HEAD = """# Kernels

A kernel family declares its parameters and the conditions under which a configuration is valid, each with its reason.
`seqtune kernels` prints the same declarations, and `seqtune kernels --json` prints them for programs. This page is
generated from them. Expressions may use the features of the problem, the facts of the device, the parameters and the
derived quantities.
"""


def page() -> str:
    """Markdown: an overview, then a section per family."""
    families = [kernel_json(kernel) for kernel in kernels()]
    overview = ["| family | backend | what it computes |", "| :-- | :-- | :-- |"]
    overview += [f"| [`{family['name']}`](#{_anchor(family)}) | {_words(family['backends'])} | "
                 f"{_cell(family['meaning'])} |" for family in families]
    return "\n".join([HEAD, *overview, "", *(_section(family) for family in families)])


def _section(family: Mapping[str, Any]) -> str:
    lines = [f"## {family['name']}", "", f"{_sentence(family['meaning'])}", "",
             f"Version {family['version']}. {_sentence(_included(family['includes']))}", "",
             "| parameter | values | meaning |", "| :-- | :-- | :-- |"]
    lines += [f"| `{parameter['name']}` | {_words(parameter['values'])} | {_cell(parameter.get('meaning'))} |"
              for parameter in family["parameters"]]
    for title, key in (("It solves problems for which", "solves"), ("A configuration is valid where", "constraints")):
        conditions = family[key]
        if conditions:
            lines += ["", f"| {title} | because |", "| :-- | :-- |"]
            lines += [f"| `{_cell(condition['expression'])}` | {_cell(condition['reason'])} |"
                      for condition in conditions]
    if family["derived"]:
        lines += ["", "| derived quantity | expression |", "| :-- | :-- |"]
        lines += [f"| `{quantity['name']}` | `{_cell(quantity['expression'])}` |" for quantity in family["derived"]]
    return "\n".join([*lines, ""])


def _anchor(family: Mapping[str, Any]) -> str:
    return str(family["name"]).replace(".", "")  # as GitHub and MkDocs make it of the heading


def _included(includes: object) -> str:
    if isinstance(includes, Mapping):
        includes = "; ".join(f"{key}: {value}" for key, value in includes.items())
    return f"its times include {includes}"


def _words(values: Any) -> str:
    return ", ".join(f"{value}" for value in values)


def _sentence(text: object) -> str:
    words = str(text).strip()
    return words[:1].upper() + words[1:].rstrip(".") + "."


def _cell(text: object) -> str:
    return " ".join(str(text or "").split()).replace("|", "\\|")
