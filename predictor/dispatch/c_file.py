"""The dispatcher as a header and a source of C99: no allocation, whole numbers, the same answers as in Python."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from seqtune.errors import ExpressionError, MisuseError
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Setting

from ..c_source.expression import CExpression, Words
from ..c_source.file import runtime
from ..c_source.names import NameTable, comment, feature_kind, identifier, literal
from ..c_source.public_names import check_prefix, with_prefix
from .dispatcher import Dispatcher
from .facts import LARGEST, UNKNOWN
from .program import Program, summary
from .tree import DIGITS, LEVELS, PER_LEVEL

PIECE = 2000  # characters of a string; C99 promises 4095
RACED = 64  # shapes whose winners a caller's memory holds
_SMALL = re.compile(r"INT64_C\((\d{1,9})\)")  # constants that need no type beside a value that has one
_FUNCTION = re.compile(r"^(?:SQ_UNUSED )?static \w+ (sq_\w+)\([^\n]*?\) \{(?:[^\n]*\}$|.*?\n\})",
                       re.MULTILINE | re.DOTALL)


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
    members = dispatcher.members
    names = [f"SEQTUNE_{number}_{identifier(member.kernel).upper()}" for number, member in enumerate(members)]
    fields, _ = _settings(dispatcher)
    shape, choices = [], []
    for feature in program.features:
        kind = "int" if feature.choices else "double" if feature.number else "int64_t"
        shape.append(f"    {kind} {identifier(feature.name)}; /* {comment(feature.meaning)} */")
        if feature.choices:
            words = (identifier(f"{feature.name}_{choice}").upper() for choice in feature.choices)
            choices.append(f"enum {{ {', '.join(f'SEQTUNE_{word}' for word in words)} }};")
    lines = [f"    {name} = {number}, /* {comment(f'{member.kernel} {member.brief()}')} */"
             for number, (name, member) in enumerate(zip(names, members, strict=True))]
    return "\n".join([
        "/* " + "\n * ".join(map(comment, summary(dispatcher))) + " */",
        "#ifndef SEQTUNE_H", "#define SEQTUNE_H", "", "#include <stdint.h>", "", "#ifdef __cplusplus", 'extern "C" {',
        "#endif", "", "/* The members, as `member` and `second` name them. */", "enum {", *lines,
        f"    SEQTUNE_MEMBERS = {len(members)}", "};", "", *choices, "/* A shape: the features that vary. */",
        "typedef struct {", *(shape or ["    int none; /* all features are fixed */"]), "} seqtune_shape;", "",
        "/* The settings of a member; 0 or NULL where its kernel has no such parameter. */", "typedef struct {",
        "    const char *kernel;", *(f"    {kind}{name};" for name, kind in fields), "} seqtune_setting;",
        "const seqtune_setting *seqtune_settings(int member); /* NULL for a number that is none of a member */", "",
        "typedef struct {",
        "    int member;    /* -1: no member is valid, or the shape is impossible */",
        "    int second;    /* the next best valid one; -1: none */",
        "    int sure;      /* whether the rule prefers the first by enough, in the domain */",
        "    int in_domain; /* whether the shape is in the domain */", "} seqtune_choice;",
        "seqtune_choice seqtune_choose(const seqtune_shape *shape);", "",
        "/* Race the rule's first two members, once for each shape. `timing` is the caller's: it returns the seconds",
        " * of a member, negative if it failed, and is called twice for each: the first call warms up. `races` is the",
        " * caller's memory, all 0 at first, for one thread at a time; it keeps the winners of the latest shapes. The",
        " * result is the faster member; -1: none is valid. */",
        f"enum {{ SEQTUNE_RACED = {RACED} }};", "typedef struct {", "    int count, member[SEQTUNE_RACED];",
        "    seqtune_shape shape[SEQTUNE_RACED];", "} seqtune_races;",
        "int seqtune_race(seqtune_races *races, const seqtune_shape *shape,",
        "                 double (*timing)(void *context, int member, const seqtune_shape *shape), void *context);", "",
        "#ifdef __cplusplus", "}", "#endif", "", "#endif", ""])


def _settings(dispatcher: Dispatcher) -> tuple[list[tuple[str, str]], list[str]]:
    """The fields of all parameters with their types, and the rows of the members.

    A parameter whose values have other types in another kernel has a field of its own for each type.
    """
    values = [{(name, _kind(value)): _value(value) for name, value in member.settings} for member in dispatcher.members]
    keys = list(dict.fromkeys(key for settings in values for key in settings))
    fields: list[str] = []
    for name, _ in keys:
        field = identifier(name)
        while field in ("kernel", *fields):
            field += "_2"
        fields.append(field)
    rows = [f"    {{{', '.join([literal(member.kernel), *(settings.get(key, '0') for key in keys)])}}},"
            for member, settings in zip(dispatcher.members, values, strict=True)]
    return [(field, kind) for field, (_, kind) in zip(fields, keys, strict=True)], rows


def _kind(value: Setting) -> str:
    return "const char *" if isinstance(value, str) else "double " if isinstance(value, float) else "int64_t "


def _value(value: Setting) -> str:
    return literal(value) if isinstance(value, str) else repr(value) if isinstance(value, float) else \
        f"INT64_C({int(value)})" if abs(int(value)) >> 31 else str(int(value))


def _source(dispatcher: Dispatcher, program: Program) -> str:
    words = Words()
    table = NameTable(words, 0)
    reading: list[str] = []
    for feature in program.features:
        span = program.limits.get(feature.name)
        slot = table.add(feature.name, feature_kind(feature), 0.0 if span is None else float(max(-span.low, span.high)),
                         never_zero=feature.number or (span is not None and span.low > 0))
        value = f"shape->{identifier(feature.name)}"
        if feature.choices:
            numbers = ", ".join(str(words.number(choice)) for choice in feature.choices)
            reading += [f"static const unsigned char word_{slot}[] = {{{numbers}}};",
                        f"if ({value} < 0 || {value} >= {len(feature.choices)}) return 0;",
                        f"s->i[{slot}] = word_{slot}[{value}];"]
        elif span is None:
            reading += [f"if (!({value} > 0 && {value} <= 1.7976931348623157e308)) return 0;",
                        f"s->d[{slot}] = {value};"]
        else:
            beyond = f"{value} < {span.low} || {value} > {span.high}" if not feature.numbers else \
                " && ".join(f"{value} != {number}" for number in feature.numbers)
            reading += [f"if ({beyond}) return 0;", f"s->i[{slot}] = {value};"]
    for name, expression in program.sizes:
        reading += table.assign(name, expression, program.most(expression))
    facts = [line for number, expression in enumerate(program.facts)
             for line in _fact(table, number, expression, program.most(expression))]
    slots, cases = "int64_t *const i = s->i;", list[str]()
    for number, condition in enumerate(program.conditions):
        first, *rest = _returned(table, condition, program.most(condition))
        cases += [f"case {number}: {first}", *_indented(rest)]
    functions = "\n\n".join([
        _function("int sq_read(sq_state *s, const seqtune_shape *shape)", [slots, *reading, "return shape && i;"]),
        _function("void sq_facts(sq_state *s, int64_t *fact)", [slots, *facts, "(void)i, (void)fact;"]),
        _function("int sq_holds(sq_state *s, int condition)", [
            slots, "switch (condition) {", *cases, "}", "return !i;"]),
        _same(program)])
    functions = _SMALL.sub(r"\1", functions).replace("s->i[", "i[")
    whole = "static int64_t sq_whole(double x) {\n    return x >= 4611686018427387904.0 ? SQ_LIMIT : " \
        "x > -4611686018427387904.0 ? (int64_t)x : -SQ_LIMIT;\n}\n\n" if "sq_whole(" in functions else ""
    helpers = _used(functions)
    count = max(1, table.slots)
    state = (f"typedef struct {{\n    int over, undefined, fault, holds;\n    int64_t i[{count}];\n"
             f"    double d[{count}];\n    unsigned char big[{count}], known[{count}];\n}} sq_state;")
    includes = [*(["#include <math.h>"] if re.search(r"\b(fmod|floor|fabs|pow|ldexp)\(", helpers) else []),
                "#include <string.h>"]
    assert UNKNOWN == -LARGEST
    rows = _settings(dispatcher)[1]
    return "\n".join([
        *includes, "", f"#define SQ_LIMIT INT64_C({LARGEST})", *_tables(dispatcher, program), "", state, "",
        "static const seqtune_setting sq_settings[SEQTUNE_MEMBERS] = {", *rows, "};", "",
        helpers + whole + functions, "",
        (Path(__file__).parent / "choose.c").read_text(encoding="utf-8")])


def _fact(table: NameTable, number: int, expression: Expression, most: float) -> list[str]:
    """The statements that compute a fact: a whole number, cut off at 62 bits; the least one where it is undefined."""
    written = CExpression.of(expression, table.names, table.words, most)
    if written.kind == "i" and not written.wide and not written.undefinable:
        return [f"fact[{number}] = {written.text};"]
    lines = table.assign(f"fact {number}", expression, most)
    value = table.names[f"fact {number}"]
    text = f"sq_whole({value.text})" if value.kind == "d" else value.text
    if value.wide:
        text = f"({value.over} ? sq_whole({value.wide}) : {text})"
    return [*lines, f"fact[{number}] = {f'!{value.defined} ? -SQ_LIMIT : ' if value.defined else ''}{text};"]


def _returned(table: NameTable, condition: Expression, most: float) -> list[str]:
    """The statements that return whether a condition holds; a missing key or a wide shift counts as if it did not."""
    lines = table.refuse_unless(condition, "0", most)
    if len(lines) == 1 and "&s->fault" not in lines[0]:
        return [f"return {lines[0].removeprefix('if (!(').removesuffix(')) return 0;')};"]
    return ["s->fault = 0;", *lines, "return !s->fault;"]


def _tables(dispatcher: Dispatcher, program: Program) -> list[str]:
    """The tests and trees of the rule."""
    rule = dispatcher.rule
    texts = rule.tree_texts()
    whole = "".join(texts)
    pieces = [whole[at:at + PIECE] for at in range(0, len(whole), PIECE)] or [""]
    trees, begin = [], 0
    for tree, text in zip(rule.trees, texts, strict=True):
        trees.append(f"{{{len(tree.tests)}, {begin}, {tree.scale}}},")
        begin += len(text)
    guards = [("rules", program.rules), ("domain", program.domain), *(
        (f"guard_{number}", guard) for number, guard in enumerate(program.guards))]
    sizes = {"FACTS": len(program.facts), "MEMBERS": rule.members, "TREES": len(rule.trees), "WIDTH": rule.width,
             "DIGITS": DIGITS, "LEVELS": LEVELS, "PER_LEVEL": PER_LEVEL, "PIECE": PIECE,
             "SURE": f"INT64_C({rule.sure})"}
    tests, thresholds = rule.test_facts.tolist() or [0], rule.thresholds.tolist() or [0]
    return [
        *(f"#define SQ_{name} {value}" for name, value in sizes.items()), "",
        *(f"static const short sq_{name}[] = {{{', '.join(map(str, (*numbers, -1)))}}};" for name, numbers in guards),
        f"static const short *const sq_guards[] = {{{', '.join(f'sq_{name}' for name, _ in guards[2:])}}};",
        f"static const unsigned short sq_test_fact[] = {{\n{_wrapped(tests)}}};",
        f"static const int64_t sq_threshold[] = {{\n{_wrapped(thresholds)}}};",
        "typedef struct { int nodes; long text; int64_t scale; } sq_tree;",
        "static const sq_tree sq_trees[] = {", *(trees or ["{0, 0, 0}"]), "};",
        "static const char *const sq_text[] = {", *(f'"{piece}",' for piece in pieces), "};"]


def _wrapped(numbers: Sequence[int]) -> str:
    texts = [f"INT64_C({number})" if abs(number) >> 31 else str(number) for number in numbers]
    return "".join(f"{','.join(texts[at:at + 24])},\n" for at in range(0, len(texts), 24))


def _same(program: Program) -> str:
    fields = [identifier(feature.name) for feature in program.features]
    equal = " && ".join(f"a->{name} == b->{name}" for name in fields) or "a && b"
    return _function("int sq_same(const seqtune_shape *a, const seqtune_shape *b)", [f"return {equal};"])


def _function(declaration: str, lines: Sequence[str]) -> str:
    return "\n".join([f"static {declaration} {{", *_indented(lines), "}"])


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _used(text: str) -> str:
    """The functions of arithmetic that a text calls, and those that they call."""
    arithmetic = runtime("arithmetic")
    functions = {match[1]: match[0] for match in _FUNCTION.finditer(arithmetic)}
    used: set[str] = set()
    new = {name for name in re.findall(r"\bsq_\w+", text) if name in functions}
    while new:
        used |= new
        new = {name for known in new for name in re.findall(r"\bsq_\w+", functions[known])
               if name in functions} - used
    limit = "#define SQ_LARGEST 4.0e18\n" if "sq_bounded" in used else ""
    return limit + "".join(f"{functions[name].removeprefix('SQ_UNUSED ')}\n" for name in functions if name in used)
