"""The dispatcher as a header and a source of C99: no allocation, whole numbers, the same answers as in Python."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from seqtune.errors import ExpressionError, MisuseError
from seqtune.kernels.expression import Expression

from ..c_source.expression import CExpression, Words
from ..c_source.file import runtime
from ..c_source.names import NameTable, comment, feature_kind, identifier, literal
from ..c_source.public_names import check_prefix, with_prefix
from .dispatcher import Dispatcher
from .domain import Domain, Span
from .facts import LARGEST, UNKNOWN
from .program import Program, summary
from .rule import LEVELS, Rule, Tree

# The trees are strings of digits: two for the test of each node, and in each leaf one for two members.
DIGITS = "".join(code for code in map(chr, range(33, 127)) if code not in '"?\\')  # what needs no escape
RACED = 64  # shapes whose winners a caller's memory holds
_SMALL = re.compile(r"INT64_C\((\d{1,9})\)")  # constants that need no type beside a value that has one
_BEGIN = re.compile(r"^(?=(?:SQ_UNUSED )?static )", re.MULTILINE)
_WHOLE = """static int64_t sq_whole(double x) {
    return x >= 4611686018427387904.0 ? SQ_LIMIT : x > -4611686018427387904.0 ? (int64_t)x : -SQ_LIMIT;
}
"""


def c_file(dispatcher: Dispatcher, prefix: str) -> tuple[str, str]:
    """The header and the source, which includes it as `prefix.h`; all public names begin with the prefix.

    Raises MisuseError.
    """
    check_prefix(prefix)
    program = Program.of(dispatcher)
    header = _header(dispatcher, program)
    try:
        source = f'/* Made by seqtune dispatch. */\n#include "{prefix}.h"\n\n' + _source(dispatcher, program)
    except ExpressionError as error:
        raise MisuseError(f"the dispatcher has no form in C: {error}") from None
    return with_prefix(header, header, prefix), with_prefix(source, header, prefix)


def _header(dispatcher: Dispatcher, program: Program) -> str:
    shape, words, members = [], [], []
    for feature in program.features:
        kind = "int" if feature.choices else "double" if feature.number else "int64_t"
        shape.append(f"    {kind} {identifier(feature.name)}; /* {comment(feature.meaning)} */")
        names = (identifier(f"{feature.name}_{choice}").upper() for choice in feature.choices)
        words += [f"enum {{ {', '.join(f'SEQTUNE_{name}' for name in names)} }};"] if feature.choices else []
    for number, member in enumerate(dispatcher.members):
        members.append(f"    SEQTUNE_{number}_{identifier(member.kernel).upper()} = {number}, "
                       f"/* {comment(f'{member.kernel} {member.brief()}')} */")
    return f"""/* {chr(10).join(map(comment, summary(dispatcher))).replace(chr(10), chr(10) + ' * ')} */
#ifndef SEQTUNE_H
#define SEQTUNE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

/* The members, as `member` and `second` name them. */
enum {{
{chr(10).join(members)}
    SEQTUNE_MEMBERS = {len(members)}
}};
const char *seqtune_text(int member); /* its kernel and settings; NULL for any other number */

{chr(10).join(words)}
/* A shape: the features that vary. */
typedef struct {{
{chr(10).join(shape) or '    int none; /* all features are fixed */'}
}} seqtune_shape;

typedef struct {{
    int member;    /* -1: no member is valid, or the shape is outside of the domain */
    int second;    /* the next best valid one; -1: none */
    int sure;      /* whether the rule prefers the first by enough */
    int in_domain; /* whether the shape is in the domain */
}} seqtune_choice;
seqtune_choice seqtune_choose(const seqtune_shape *shape);

/* Race the rule's first two members, once for each shape. `timing` is the caller's: it returns the seconds
 * of a member, negative if it failed, and is called twice for each: the first call warms up. `races` is the
 * caller's memory, all 0 at first, for one thread at a time; it keeps the winners of the latest shapes. The
 * result is the faster member; -1: none is valid. */
enum {{ SEQTUNE_RACED = {RACED} }};
typedef struct {{
    int count, member[SEQTUNE_RACED];
    seqtune_shape shape[SEQTUNE_RACED];
}} seqtune_races;
int seqtune_race(seqtune_races *races, const seqtune_shape *shape,
                 double (*timing)(void *context, int member, const seqtune_shape *shape), void *context);

#ifdef __cplusplus
}}
#endif

#endif
"""


def _reading(program: Program, domain: Domain, table: NameTable) -> list[str]:
    """The statements that read a shape, and return 0 where it is outside of the domain; the table gets its names."""
    read: list[str] = []
    for feature in program.features:
        values, name = domain.ranges[feature.name], identifier(feature.name)
        assert isinstance(values, tuple)
        numbers = [value for value in values if isinstance(value, int | float)]
        slot = table.add(feature.name, feature_kind(feature), max(map(abs, numbers), default=0.0),
                         never_zero=min(numbers, default=0) > 0)
        if feature.choices:
            codes = ", ".join(str(table.words.number(choice)) for choice in feature.choices)
            read += [f"static const unsigned char word_{slot}[] = {{{codes}}};",
                     f"if (shape->{name} < 0 || shape->{name} >= {len(feature.choices)}) return 0;",
                     f"s->i[{slot}] = word_{slot}[shape->{name}];"]
        else:
            read.append(f"s->{feature_kind(feature)}[{slot}] = shape->{name};")
        within = f"{values.low} <= {feature.name} <= {values.high}" if isinstance(values, Span) else \
            f"{feature.name} in {tuple(values)!r}"
        read += table.refuse_unless(Expression(within), "0")
    for name, expression in program.sizes:
        read += table.assign(name, expression)
    for condition in program.inside:
        read += table.refuse_unless(condition, "0")
    return read


def _source(dispatcher: Dispatcher, program: Program) -> str:
    table, cases = NameTable(Words(), 0), list[str]()
    read = _reading(program, dispatcher.domain, table)
    facts = [line for number, expression in enumerate(program.facts) for line in _fact(table, number, expression)]
    for number, guard in enumerate(program.guards):
        conditions = [f"    {line}" for condition in guard for line in table.refuse_unless(condition, "0")]
        cases += [f"case {number}:", *conditions, "    break;"] if conditions else []
    functions = _SMALL.sub(r"\1", "\n".join([
        _function("int sq_read(sq_state *s, const seqtune_shape *shape)", [*read, "return shape && i && !s->fault;"]),
        _function("void sq_facts(sq_state *s, int64_t *fact)", [*facts, "(void)i, (void)fact;"]),
        _function("int sq_valid(sq_state *s, int member)", [
            "s->fault = 0;", "switch (member) {", *cases, "default: break;", "}", "return i && !s->fault;"])]))
    functions = functions.replace("s->i[", "i[")
    equal = [f"a->{name} == b->{name}" for name in (identifier(feature.name) for feature in program.features)]
    count = max(1, table.slots)
    assert UNKNOWN == -LARGEST
    return "\n".join([
        "#include <math.h>", "#include <string.h>", "", f"#define SQ_LIMIT INT64_C({LARGEST})",
        "#define SQ_LARGEST 4.0e18", *_tables(dispatcher.rule), "static const char *const sq_texts[] = {",
        *(f"    {literal(f'{member.kernel} {member.brief()}')}," for member in dispatcher.members), "};", "",
        "typedef struct {", "    int over, undefined, fault, holds;", f"    int64_t i[{count}];",
        f"    double d[{count}];", f"    unsigned char big[{count}], known[{count}];", "} sq_state;", "",
        _used(functions) + functions,
        "static int sq_same(const seqtune_shape *a, const seqtune_shape *b) {",
        f"    return {' && '.join(equal) or 'a && b'};", "}", "",
        (Path(__file__).parent / "choose.c").read_text(encoding="utf-8")])


def _fact(table: NameTable, number: int, expression: Expression) -> list[str]:
    """The statements that compute a fact: a whole number, cut off at 62 bits; the least one where it is undefined."""
    written = CExpression.of(expression, table.names, table.words)
    if written.kind == "i" and not written.wide and not written.undefinable:
        return [f"fact[{number}] = {written.text};"]
    lines = table.assign(f"fact {number}", expression)
    value = table.names[f"fact {number}"]
    text = f"sq_whole({value.text})" if value.kind == "d" else value.text
    if value.wide:
        text = f"({value.over} ? sq_whole({value.wide}) : {text})"
    return [*lines, f"fact[{number}] = {f'!{value.defined} ? -SQ_LIMIT : ' if value.defined else ''}{text};"]


def _tables(rule: Rule) -> list[str]:
    """The tests and trees of the rule."""
    trees = [f'{{{len(tree.tests)}, {tree.scale}, "{_digits(tree)}"}},' for tree in rule.trees] or ['{0, 0, ""}']
    sizes = {"FACTS": len(rule.facts), "TREES": len(rule.trees), "DIGITS": len(DIGITS), "LEVELS": LEVELS,
             "SURE": f"INT64_C({rule.sure})"}
    return [*(f"#define SQ_{name} {value}" for name, value in sizes.items()), "",
            "static const struct { unsigned short fact; int64_t threshold; } sq_tests[] = {",
            *(f"{{{fact},{threshold if -1 < threshold >> 31 < 1 else f'INT64_C({threshold})'}}},"
              for fact, threshold in rule.tests or ((0, 0),)), "};",
            "typedef struct { int nodes; int64_t scale; const char *text; } sq_tree;",
            "static const sq_tree sq_trees[] = {", *trees, "};"]


def _digits(tree: Tree) -> str:
    numbers = [digit for test in tree.tests for digit in divmod(test, len(DIGITS))]
    for leaf in tree.leaves:
        raised = [level + LEVELS for level in (*leaf, -LEVELS)]  # the last one is left out where it has no partner
        numbers += [first * (2 * LEVELS + 1) + second for first, second in zip(raised[::2], raised[1::2], strict=False)]
    return "".join(DIGITS[number] for number in numbers)


def _function(declaration: str, lines: Sequence[str]) -> str:
    body = "\n".join(f"    {line}" for line in ("int64_t *const i = s->i;", *lines))
    return f"static {declaration} {{\n{body}\n}}\n"


def _used(text: str) -> str:
    """The functions of arithmetic that a text calls, and those that they call, which stand before them."""
    used = ""
    for function in reversed([*_BEGIN.split(runtime("arithmetic"))[1:], _WHOLE]):
        name = re.findall(r"sq_\w+", function)[0]
        if f"{name}(" in used or f"{name}(" in text:
            used = function.removeprefix("SQ_UNUSED ") + used
    return used
