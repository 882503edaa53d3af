"""Declaration: a checkpoint's copy of a kernel's declaration, and its comparison with the installed kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from seqtune.kernels.kernel import Kernel, Setting
from seqtune.kernels.libraries.versions import changes, how_to_keep, is_todays


class Declaration(BaseModel):
    """A checkpoint's copy of a kernel's declaration.

    Constraints are stored for readers and not compared: when they change, spaces are enumerated with the new ones and
    the words still fit. Derived quantities are compared, since the model sees their values.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    name: str = Field(max_length=200)
    problem_type: str = Field(max_length=200)
    version: int = Field(ge=0, le=2**31 - 1)
    parameters: tuple[tuple[str, tuple[Setting, ...]], ...] = Field(max_length=100)
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
        if not is_todays(kernel, there.version, there.parts):
            text = f"{kernel.name} has version {there.version} in it and {here.version} here"
            texts.append(f"{text} ({changes(there.parts, kernel)}; {how_to_keep(kernel.name, there.version, 'it')})"
                         if kernel.parts else text)
        ours, theirs = dict(here.parameters), dict(there.parameters)
        if tuple(ours) != tuple(theirs):
            texts.append(f"{kernel.name} has the parameters {' '.join(theirs)} in it and {' '.join(ours)} here")
        texts += [f"{kernel.name}.{name} has the values {_brief(theirs[name])} in it and {_brief(values)} here"
                  for name, values in ours.items() if name in theirs and theirs[name] != values]
        if here.derived != there.derived:
            changed = dict(set(here.derived) ^ set(there.derived)) or dict(here.derived)
            texts.append(f"{kernel.name} derives other quantities in it than here ({', '.join(sorted(changed))})")
    return texts


def _brief(values: Sequence[Setting]) -> str:
    return ",".join(map(str, values[:12])) + (",..." if len(values) > 12 else "")
