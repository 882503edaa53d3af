"""Declaration: a checkpoint's copy of a kernel's declaration, and its comparison with the installed kernel."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from seqtune.kernels.kernel import Kernel, Setting, identity, is_setting, shown_setting
from seqtune.kernels.libraries.versions import changes, how_to_keep, is_todays


def _checked(value: Setting) -> Setting:
    if not is_setting(value):
        raise ValueError("a number of more than 64 bits, or one that is not finite")
    return value


class Declaration(BaseModel):
    """A checkpoint's copy of a kernel's declaration.

    Constraints are stored for readers and not compared: when they change, spaces are enumerated with the new ones and
    the words still fit. Derived quantities are compared, since the model sees their values. JSON keeps the types of
    values: 1, 1.0, true and "1" are four different ones.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    name: str = Field(max_length=200)
    problem_type: str = Field(max_length=200)
    version: int = Field(ge=0, le=2**31 - 1)
    parameters: tuple[tuple[str, tuple[Annotated[Setting, AfterValidator(_checked)], ...]], ...] = Field(max_length=100)
    constraints: tuple[str, ...] = ()
    derived: tuple[tuple[str, str], ...] = ()
    parts: dict[str, str] | None = Field(default=None, max_length=10_000)  # of the version, of a declared kernel

    @model_serializer(mode="wrap")
    def _without_missing(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        """The fields, without `parts` where there are none, so that earlier versions read the file."""
        content: dict[str, object] = write(self)
        return {name: value for name, value in content.items() if name != "parts" or value is not None}

    @classmethod
    def of(cls, kernel: Kernel) -> Declaration:
        """The declaration of an installed kernel."""
        return cls(
            name=kernel.name, problem_type=kernel.operation, version=kernel.version,
            parameters=tuple((parameter.name, parameter.values) for parameter in kernel.parameters),
            constraints=tuple(constraint.expression.text for constraint in kernel.constraints),
            derived=tuple((name, expression.text) for name, expression in kernel.derived),
            parts=dict(kernel.parts) or None)


def differences(declarations: Iterable[Declaration], kernels: Iterable[Kernel]) -> list[str]:
    """The differences between installed kernels and a checkpoint's declarations, as text; empty if there are none."""
    declared = {kernel.name: kernel for kernel in declarations}
    texts: list[str] = []
    for kernel in kernels:
        here, there = Declaration.of(kernel), declared.get(kernel.name)
        if there is None:
            texts.append(f"{kernel.name} is not in it")
            continue
        ours, theirs = dict(here.parameters), dict(there.parameters)
        texts += [f"{kernel.name}.{name} has {_brief(values)} as words in it and as numbers here, so it must be "
                  "trained again" for name, values in ours.items() if _were_words(theirs.get(name, ()), values)]
        if not is_todays(kernel, there.version, there.parts):
            text = f"{kernel.name} has version {there.version} in it and {here.version} here"
            texts.append(f"{text} ({changes(there.parts, kernel)}; {how_to_keep(kernel.name, there.version, 'it')})"
                         if kernel.parts else text)
        if tuple(ours) != tuple(theirs):
            texts.append(f"{kernel.name} has the parameters {' '.join(theirs)} in it and {' '.join(ours)} here")
        texts += [f"{kernel.name}.{name} has the values {_brief(theirs[name])} in it and {_brief(values)} here"
                  for name, values in ours.items()
                  if name in theirs and _identities(theirs[name]) != _identities(values)]
        if here.derived != there.derived:
            changed = dict(set(here.derived) ^ set(there.derived)) or dict(here.derived)
            texts.append(f"{kernel.name} derives other quantities in it than here ({', '.join(sorted(changed))})")
    return texts


def _identities(values: Sequence[Setting]) -> list[Hashable]:
    return [identity(value) for value in values]


def _were_words(before: Sequence[Setting], now: Sequence[Setting]) -> bool:
    """Whether words stand for numbers, as before version 0.3, when no parameter could have fractions or booleans."""
    words = {value.lower() for value in before if isinstance(value, str) and value not in now}
    return any(not isinstance(value, str) and shown_setting(value).lower() in words for value in now)


def _brief(values: Sequence[Setting]) -> str:
    return ",".join(map(shown_setting, values[:12])) + (",..." if len(values) > 12 else "")
