"""Changed declarations: a bf16 or int8 family declares the differences from the fp32 family whose code it shares."""

from __future__ import annotations

from collections.abc import Mapping

from seqtune.errors import KernelError

from ..kernel import Kernel

Texts = tuple[tuple[str, str], ...]


def changed(family: Kernel, **expressions: str) -> Texts:
    """The derived quantities of a family, with these expressions instead. Raises KernelError for an unknown name."""
    own = {name: expression.text for name, expression in family.derived}
    _check(family, own, expressions)
    return tuple({**own, **expressions}.items())


def changed_conditions(family: Kernel, others: Mapping[str, tuple[str, str]]) -> Texts:
    """The constraints of a family as (expression, reason), with those of `others`, by expression, instead.

    Raises KernelError for an expression that the family does not have.
    """
    own = {constraint.expression.text: constraint.reason for constraint in family.constraints}
    _check(family, own, others)
    return tuple(others.get(text, (text, reason)) for text, reason in own.items())


def _check(family: Kernel, own: Mapping[str, object], others: Mapping[str, object]) -> None:
    unknown = sorted(others.keys() - own.keys())
    if unknown:
        raise KernelError(f"{family.name} does not declare {', '.join(unknown)}")
