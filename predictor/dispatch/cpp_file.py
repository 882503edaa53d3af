"""The members as types of C++, for libraries whose kernels are templates, and a switch that calls the chosen one."""

from __future__ import annotations

from seqtune.kernels.kernel import Configuration, Setting

from ..c_source.names import comment, identifier, literal
from ..c_source.public_names import check_prefix
from .dispatcher import Dispatcher


def cpp_file(dispatcher: Dispatcher, prefix: str) -> str:
    """A header of C++11 that includes `prefix.h` of `c_file`, whose source finds the member. Raises MisuseError."""
    check_prefix(prefix)
    guard, members = f"{prefix.upper()}_HPP", enumerate(dispatcher.members)
    cases = "\n".join(f"    case {number}: f({prefix}_member<{number}>()); return true;"
                      for number in range(len(dispatcher.members)))
    return f"""/* Made by seqtune dispatch. The members as types, for kernels that are templates. */
#ifndef {guard}
#define {guard}

#include "{prefix}.h"

/* The kernel and the settings of member N. Names that C++ does not allow have a _ for each wrong character, or one
 * at the end. Before C++17, copy a constant where a function takes a reference. */
template <int N> struct {prefix}_member;

{chr(10).join(_member(prefix, number, member) for number, member in members)}
/* Call f({prefix}_member<N>()) for the member N of {prefix}_choose, and return true. Each call stands here once, so
 * that each member's kernel is instantiated once. Where no member is valid, or the shape is outside of the domain, f
 * is not called, and the result is false. */
template <class F> bool {prefix}_switch(const {prefix}_shape &shape, F &&f) {{
    switch ({prefix}_choose(&shape).member) {{
{cases}
    default: return false;
    }}
}}

#endif
"""


def _member(prefix: str, number: int, member: Configuration) -> str:
    """The type of a member: each name is that of one constant."""
    constants = {"kernel": f'const char *kernel = {literal(member.kernel)}'}
    for name, value in member.settings:
        free = identifier(name)
        while free in constants or free == f"{prefix}_member":
            free += "_"
        constants[free] = _constant(free, value)
    lines = "".join(f"    static constexpr {constant};\n" for constant in constants.values())
    return (f"template <> struct {prefix}_member<{number}> {{ /* {comment(f'{member.kernel} {member.brief()}')} */\n"
            f"{lines}}};\n")


def _constant(name: str, value: Setting) -> str:
    """The declaration of a setting: a whole number, a boolean, a fraction or a word."""
    if isinstance(value, str):
        return f"const char *{name} = {literal(value)}"
    if isinstance(value, bool):
        return f"bool {name} = {str(value).lower()}"
    if isinstance(value, float):
        return f"double {name} = {value!r}"
    return f"int64_t {name} = INT64_C({value})"
