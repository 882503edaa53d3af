"""DocumentPart: the base of all models of a library's document, and the types that they share."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from ..arithmetic import LARGEST_NUMBER
from ..expression import LONGEST_EXPRESSION

LONGEST_NAME = 60  # characters
UNKNOWN_KEY = "unknown_key"  # the type of pydantic's error


class DocumentPart(BaseModel):
    """A part of a document: frozen, strict about types, without unknown keys."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True)

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, value: Any) -> Any:
        """Name the keys that are known where there is another one. Raises PydanticCustomError."""
        if isinstance(value, dict):
            known = [field.alias or name for name, field in cls.model_fields.items()]
            unknown = next((key for key in value if key not in known and key not in cls.model_fields), None)
            if unknown is not None:
                near = get_close_matches(str(unknown), known, 1)
                raise PydanticCustomError(UNKNOWN_KEY, "unknown key", {"key": unknown, "message": (
                    f"no such key is known here; {f'did you mean {near[0]}? ' if near else ''}known are "
                    f"{', '.join(known)}")})
        return value


def _as_text(value: Any) -> Any:
    """Convert a whole number to an expression."""
    return str(value) if type(value) is int and abs(value) <= LARGEST_NUMBER else value


def named(field: str, *kinds: type) -> Callable[[Any], Any]:
    """A validator that accepts a bare value of these types in place of a table with only this field."""
    words = {str: "a text", int: "a whole number", list: "an array"}

    def table(value: Any) -> Any:
        if type(value) in kinds:
            return {field: value}
        if not isinstance(value, dict | DocumentPart):
            raise ValueError(f"it must be {', '.join(words[kind] for kind in kinds)} or a table, not {value!r:.60}")
        return value

    return table


def spelled(letters: str, words: str) -> Callable[[str], str]:
    """A validator of a name that consists of these letters (a regular expression), described in words."""
    pattern = re.compile(letters)

    def check(name: str) -> str:
        if not pattern.fullmatch(name) or len(name) > LONGEST_NAME:
            raise ValueError(f"{name!r:.80} is not {words}, at most {LONGEST_NAME} characters long")
        if keyword.iskeyword(name):
            raise ValueError(f"{name!r} is a word of expressions and cannot be a name")
        return name

    return check


# Problems are written in any case, so the names of operations and features are lower-case.
LowerName: TypeAlias = Annotated[str, AfterValidator(spelled(
    "[a-z][a-z0-9_]*", "a name of lower-case letters, digits and _ that begins with a letter"))]
CName: TypeAlias = Annotated[str, AfterValidator(spelled(
    "[A-Za-z_][A-Za-z0-9_]*", "a name of letters, digits and _ that does not begin with a digit"))]
FamilyName: TypeAlias = Annotated[str, AfterValidator(spelled(
    "[A-Za-z0-9_-]+", "a name of letters, digits, _ and -"))]
ExpressionText: TypeAlias = Annotated[str, Field(min_length=1, max_length=LONGEST_EXPRESSION),
                                      BeforeValidator(_as_text)]
Whole: TypeAlias = Annotated[int, Field(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]
Text: TypeAlias = Annotated[str, Field(max_length=10_000)]
