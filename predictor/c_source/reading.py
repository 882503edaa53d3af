"""The C code that reads problems and devices into slots: it checks ranges and rules, and computes derived sizes."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from seqtune.errors import MisuseError
from seqtune.kernels.devices.element_types import ELEMENT_TYPES
from seqtune.kernels.expression import Expression
from seqtune.kernels.libraries.declared_operation import DeclaredOperation
from seqtune.kernels.operations.feature import LARGEST_TENSOR, Feature
from seqtune.kernels.operations.operation import Operation

from .expression import CExpression
from .header import constant
from .names import LARGEST_FACT, NUMBER_FACTS, RATE_FACTS, WORD_FACTS, NameTable, OperationNames, identifier

# The elements of tensors as `Operation.operands` and `Operation.output` give them, and the number of each among input,
# weights and output, where several with one number are added (None: it must only be valid).
TENSORS: Mapping[str, tuple[tuple[str, int | None], ...]] = {
    "attention": (("n * heads * q_len * head_dim", 0), ("n * kv_heads * kv_len * head_dim", 1),
                  ("n * kv_heads * kv_len * value_dim", 1), ("n * heads * q_len * value_dim", 2)),
    "conv2d": (("n * c * h * w", 0), ("k * c_per_group * r * s", 1), ("n * k * out_h * out_w", 2)),
    "gemm": (("m * k", 0), ("k * n", 1), ("m * n", 2)),
}


def device_reader(table: NameTable, extras: Sequence[str]) -> str:
    """The functions that make an empty device and read a device."""
    lines = []
    for name in WORD_FACTS:
        slot = table.number[name]
        lines += [f"if (!device->{name}) return SEQTUNE_ERROR_DEVICE;",
                  f"s->i[{slot}] = sq_word(device->{name});", f"s->known[{slot}] = 1;"]
    for name in (*NUMBER_FACTS, *extras):
        slot, field = table.number[name], "vector_bits" if name == "vector_floats" else identifier(name)
        if name in extras:
            lines += [f"s->known[{slot}] = device->{field} != SEQTUNE_UNKNOWN;", f"if (s->known[{slot}]) {{"]
        lines += [f"if (device->{field} < 0 || device->{field} > INT64_C({int(LARGEST_FACT)})) "
                  "return SEQTUNE_ERROR_DEVICE;",
                  f"s->i[{slot}] = device->{field}{' / 32' if name == 'vector_floats' else ''};"]
        lines.append("}" if name in extras else f"s->known[{slot}] = 1;")
    for name in RATE_FACTS:
        slot = table.number[f"device.{name}"]
        lines += [f"if (!(device->{name} >= 0 && device->{name} < HUGE_VAL)) return SEQTUNE_ERROR_DEVICE;",
                  f"s->d[{slot}] = device->{name};", f"s->known[{slot}] = 1;"]
    empty = [*(f'device->{name} = "";' for name in WORD_FACTS),
             *(f"device->{identifier(name)} = SEQTUNE_UNKNOWN;" for name in extras)]
    return "\n".join([
        "/* The number of a word; -1 for a word that no expression names. */",
        "static int64_t sq_word(const char *word) {", "    int number;",
        "    for (number = 0; sq_words[number]; ++number) if (!strcmp(sq_words[number], word)) return number;",
        "    return -1;", "}", "",
        "void seqtune_device_init(seqtune_device *device) {", "    memset(device, 0, sizeof *device);",
        *(f"    {line}" for line in empty), "}", "",
        "static int sq_read_device(sq_state *s, const seqtune_device *device) {",
        *(f"    {line}" for line in lines), "    return 0;", "}"])


def operation_reader(work: OperationNames) -> str:
    """The functions that initialise and read the problems of one operation."""
    name, table = identifier(work.operation.name), work.table
    lines: list[str] = []
    for feature in work.operation.features:
        lines += _feature(feature, table)
    body = [*lines, *work.derived, *work.rules, *_tensors(work)]
    start = [f"features->{identifier(feature.name)} = {_default(feature)};" for feature in work.operation.features]
    return "\n".join([
        f"static void sq_init_{name}(seqtune_{name} *features) {{", *(f"    {line}" for line in start), "}", "",
        f"static int sq_read_{name}(sq_state *s, const seqtune_{name} *features) {{",
        *(f"    {line}" for line in body), "    return 0;", "}"])


def problem_reader(operations: Sequence[Operation]) -> str:
    """The functions that choose by the problem's operation."""
    names = [(constant(operation), identifier(operation.name)) for operation in operations]
    return "\n".join([
        "int seqtune_problem_init(seqtune_problem *problem, seqtune_operation operation) {",
        "    if (!problem) return SEQTUNE_ERROR_NULL;", "    memset(problem, 0, sizeof *problem);",
        "    problem->operation = operation;", "    switch ((int)operation) {",
        *(f"    case {number}: sq_init_{name}(&problem->of.{name}); return 0;" for number, name in names),
        "    default: return SEQTUNE_ERROR_OPERATION;", "    }", "}", "",
        "static int sq_read_problem(sq_state *s, const seqtune_problem *problem) {",
        "    s->operation = (int)problem->operation;", "    switch (s->operation) {",
        *(f"    case {number}: return sq_read_{name}(s, &problem->of.{name});" for number, name in names),
        "    default: return SEQTUNE_ERROR_OPERATION;", "    }", "}"])


def _feature(feature: Feature, table: NameTable) -> list[str]:
    slot, field = table.number[feature.name], f"features->{identifier(feature.name)}"
    if feature.choices:
        words = ", ".join(str(table.words.number(choice)) for choice in feature.choices)
        return [f"if ({field} != SEQTUNE_UNKNOWN_CHOICE) {{",
                f"    static const int64_t words[] = {{{words}}};",
                f"    if ({field} < 0 || {field} >= {len(feature.choices)}) return SEQTUNE_ERROR_PROBLEM;",
                f"    s->i[{slot}] = words[{field}];", f"    s->known[{slot}] = 1;", "}"]
    if feature.number:
        return [f"if ({field} == {field}) {{ /* not NaN */",
                f"    if (!({field} > 0 && {field} < HUGE_VAL)) return SEQTUNE_ERROR_PROBLEM;",
                f"    s->d[{slot}] = {field};", f"    s->known[{slot}] = 1;", "}"]
    refused = " && ".join(f"{field} != INT64_C({number})" for number in feature.numbers) or (
        f"{field} < INT64_C({feature.low}) || {field} > INT64_C({feature.high})")
    return [f"if ({field} != SEQTUNE_UNKNOWN) {{", f"    if ({refused}) return SEQTUNE_ERROR_PROBLEM;",
            f"    s->i[{slot}] = {field};", f"    s->known[{slot}] = 1;", "}"]


def _default(feature: Feature) -> str:
    if feature.choices:
        known = isinstance(feature.default, str) and not feature.required
        return str(feature.choices.index(str(feature.default))) if known else "SEQTUNE_UNKNOWN_CHOICE"
    if feature.required or feature.default is None or isinstance(feature.default, str):
        return "sq_nan()" if feature.number else "SEQTUNE_UNKNOWN"
    return repr(float(feature.default)) if feature.number else f"INT64_C({feature.default})"


def _tensors(work: OperationNames) -> list[str]:
    """The statements that compute the FLOP and the bytes of input, weights and output; -1 where they are unknown."""
    table = work.table
    lines = ["s->tensor[0] = s->tensor[1] = s->tensor[2] = s->flop = -1;"]
    if "flop" in table.number:
        flop = table.names["flop"]
        value = f"s->big[{table.number['flop']}] ? {flop.wide} : (double){flop.text}" if flop.wide else flop.text
        lines.append(f"if ({table.known(['flop'])}) s->flop = {value if flop.wide else f'(double){value}'};")
    sizes = _sizes(work.operation)
    if not sizes:
        return lines
    needed = table.known(name for expression, _ in sizes for name in expression.names)
    lines += [f"if ({needed}) {{", f"    double element = {_element(work.operation, table)}, size[3] = {{-1, -1, -1}};"]
    lines += ["    int valid = element > 0;"]
    added: set[int] = set()
    for expression, number in sizes:
        written = CExpression.of(expression, table.names, table.words)
        lines += ["    s->over = s->undefined = 0;", f"    s->size = (double)({written.text});"]
        if written.wide:
            lines.append(f"    if (s->over) s->undefined = 0, s->size = {written.wide};")
        if written.undefinable:
            lines.append("    valid = valid && !s->undefined;")
        if number is None:
            lines.append(f"    valid = valid && s->size > 0 && s->size <= {LARGEST_TENSOR}.0 "
                         "&& s->size == floor(s->size);")
        else:
            before = f"size[{number}] + " if number in added else ""
            lines.append(f"    size[{number}] = {before}element * s->size;")
            added.add(number)
    return [*lines, "    if (valid) memcpy(s->tensor, size, sizeof size);", "}"]


def _sizes(operation: Operation) -> list[tuple[Expression, int | None]]:
    """The elements of the input, the weights and the output, by their numbers, and (None) axes that must be valid."""
    if isinstance(operation, DeclaredOperation):
        return _declared_sizes(operation)
    if type(operation).operands is Operation.operands:
        return []
    texts = TENSORS.get(operation.name)
    if texts is None:
        raise MisuseError(f"the sizes of {operation.name}'s tensors have no form in C; export a library with other "
                          "operations")
    return [(Expression(text), number) for text, number in texts]


def _declared_sizes(operation: DeclaredOperation) -> list[tuple[Expression, int | None]]:
    if not operation.document.outputs:
        return []
    sizes: list[tuple[Expression, int | None]] = []
    output = next(iter(operation.document.outputs))
    for array in (*operation.document.inputs, output):
        tree = ast.parse(operation.shapes[array].text, mode="eval").body
        axes = [f"({ast.unparse(axis)})" for axis in tree.elts] if isinstance(tree, ast.Tuple) else []
        product = " * ".join(axes) or "1"
        sizes += [(Expression(text), None) for text in (*axes, product)]
        number = {"x": 0, "weights": 1}.get(array) if array in operation.document.inputs else None
        if number is not None:
            sizes.append((Expression(product), number))
        if array == output:
            sizes.append((Expression(product), 2))
    return sizes


def _element(operation: Operation, table: NameTable) -> str:
    """The bytes of an element; 0 for element types that no kernel stores."""
    if "dtype" not in operation.by_name:
        return "4"
    slot = table.number["dtype"]
    text = "0"
    for name in (choice for choice in operation.by_name["dtype"].choices if choice in ELEMENT_TYPES):
        text = f"s->i[{slot}] == {table.words.number(name)} ? {ELEMENT_TYPES[name].size} : {text}"
    return f"!s->known[{slot}] ? 4 : {text}"
