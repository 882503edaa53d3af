"""The header of an exported predictor: its structs, functions and errors, with their meanings."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Collection, Sequence

from seqtune.kernels.operations.feature import Feature
from seqtune.kernels.operations.operation import Operation

from .names import LARGEST_FACT, NUMBER_FACTS, RATE_FACTS, WORD_FACTS, comment, identifier, literal

MOST_PROPOSALS = 16

ERRORS = (
    ("NULL", "a pointer is NULL"),
    ("COUNT", f"count is not from 1 to {MOST_PROPOSALS}"),
    ("SCRATCH", "the scratch memory is too small, or not aligned for a double"),
    ("OPERATION", "the problem's operation is none that the header lists"),
    ("PROBLEM", "a feature is outside its range, or the features contradict each other"),
    ("DEVICE", "a word of the device is NULL, or a number is negative, not finite or too large"),
    ("NO_KERNEL", "no kernel solves the problem on the device, or none has a valid configuration; a limit of the "
                  "device that is left at 0, such as max_work_group, allows nothing"),
    ("ARITHMETIC", "a constraint has no value for this problem: it looks up a missing key, or shifts too far"),
    ("TOO_LARGE", "the search for valid configurations was given up; it is bounded"),
)

_FACTS = {
    "backend": "such as 'llvm' or 'opencl'", "instruction_set": "'avx512', 'opencl-c-1.2'",
    "architecture": "'znver5', 'gfx906'", "threads": "CPU threads used, 0 on a GPU",
    "compute_units": "cores, or units of a GPU", "vector_bits": "of the widest register",
    "vector_registers": "number of them", "l1_bytes": "of one core's cache; 0: not known", "l2_bytes": "the same",
    "l3_bytes": "of the cache that all share", "local_memory": "bytes that a work-group shares",
    "max_work_group": "work-items of a work-group", "peak_gflops": "measured, fp32, all threads",
    "bandwidth_gbs": "measured, from memory"}


def header(title: str, operations: Sequence[Operation], extras: Sequence[str], parameters: int,
           read: Collection[str], fractions: bool = False) -> str:
    """The text of the header; `read` are the names that constraints of kernels read.

    With `fractions`, a setting has a field more, the last one: otherwise its layout stays that of earlier versions.
    """
    parts = [
        "/* " + "\n * ".join(textwrap.wrap(comment(title), 115)) + " */",
        "#ifndef SEQTUNE_PREDICTOR_H\n#define SEQTUNE_PREDICTOR_H\n\n#include <stddef.h>\n#include <stdint.h>\n\n"
        '#ifdef __cplusplus\nextern "C" {\n#endif',
        "/* A whole number that is not known, and a choice that is not known. A number is not known if it is NaN. */\n"
        "#define SEQTUNE_UNKNOWN INT64_MIN\n#define SEQTUNE_UNKNOWN_CHOICE (-1)",
        f"#define SEQTUNE_MOST {MOST_PROPOSALS} /* configurations of one call */\n"
        f"#define SEQTUNE_PARAMETERS {parameters} /* of the kernel that has most */",
        _errors(), _operations(operations), *map(_problem, operations), _union(operations),
        _device(extras, read), _setting(fractions), _rest()]
    return "\n\n".join(parts)


def constant(operation: Operation) -> str:
    """The name of an operation in the enumeration."""
    return f"SEQTUNE_{identifier(operation.name).upper()}"


def _errors() -> str:
    lines = [f"    SEQTUNE_ERROR_{name} = {-1 - number}{',' if number + 1 < len(ERRORS) else ''} /* {meaning} */"
             for number, (name, meaning) in enumerate(ERRORS)]
    return "\n".join(["/* What the functions return instead of a number of configurations; see seqtune_error_text. */",
                      "enum {", *lines, "};"])


def error_texts() -> str:
    """The function that says what an error means."""
    texts = ",\n".join(f"        {literal(meaning)}" for _, meaning in ERRORS)
    return ("const char *seqtune_error_text(int result) {\n"
            f"    static const char *const texts[] = {{\n{texts}\n    }};\n"
            f'    return result < 0 && result >= -{len(ERRORS)} ? texts[-1 - result] : result < 0 ? "unknown error" : '
            '"no error";\n}')


def _operations(operations: Sequence[Operation]) -> str:
    lines = [f"    {constant(operation)} = {number}{',' if number + 1 < len(operations) else ''} "
             f"/* {comment(operation.meaning)} */" for number, operation in enumerate(operations)]
    return "\n".join(["typedef enum {", *lines, "} seqtune_operation;"])


def _problem(operation: Operation) -> str:
    name = identifier(operation.name)
    used: set[str] = set()
    enums = [f"enum {{ {', '.join(_choices(operation, feature, used))} }};"
             for feature in operation.features if feature.choices]
    lines = []
    for feature in operation.features:
        kind = "int" if feature.choices else "double" if feature.number else "int64_t"
        scope = (f"one of {operation.name}'s choices above, in this order: {' '.join(feature.choices)}"
                 if feature.choices else "above 0" if feature.number
                 else f"one of {' '.join(map(str, feature.numbers))}" if feature.numbers
                 else f"{feature.low} to {feature.high}")
        lines.append(f"    {kind} {identifier(feature.name)}; /* {comment(f'{feature.meaning}; {scope}')} */")
    return "\n".join([*enums, "typedef struct {", *lines, f"}} seqtune_{name};"])


def _choices(operation: Operation, feature: Feature, used: set[str]) -> list[str]:
    """The constants of a feature's choices; different choices may look alike in C, so a number tells them apart."""
    names = []
    for choice in feature.choices:
        name = f"{constant(operation)}_{identifier(feature.name).upper()}_{identifier('x' + choice)[1:].upper()}"
        names.append(next(candidate for number in itertools.count(1)
                          if (candidate := name if number == 1 else f"{name}_{number}") not in used))
        used.add(names[-1])
    return names


def _union(operations: Sequence[Operation]) -> str:
    lines = [f"        seqtune_{identifier(operation.name)} {identifier(operation.name)};" for operation in operations]
    return "\n".join(["typedef struct {", "    seqtune_operation operation;",
                      "    union { /* the member of the operation's name */", *lines, "    } of;",
                      "} seqtune_problem;"])


def _device(extras: Sequence[str], read: Collection[str]) -> str:
    lines = [f"    const char *{name}; /* {comment(_FACTS[name])} */" for name in WORD_FACTS]
    for name in NUMBER_FACTS:
        field = "vector_bits" if name == "vector_floats" else name
        limit = "; constraints read it: set it, 0 may allow nothing" if name in read else ""
        lines.append(f"    int64_t {field}; /* {comment(_FACTS[field])}{limit} */")
    lines += [f"    double {name}; /* {comment(_FACTS[name])}; 0: not known */" for name in RATE_FACTS]
    lines += [f"    int64_t {identifier(name)}; /* SEQTUNE_UNKNOWN if the device has no such fact */"
              for name in extras]
    return "\n".join([f"/* Facts of a device, as `seqtune devices --json` prints them. Whole numbers are at most "
                      f"2^{LARGEST_FACT.hex().partition('p+')[2]}. */",
                      "typedef struct {", *lines, "} seqtune_device;"])


def _setting(fractions: bool) -> str:
    number, fraction = "the value, if it is a number; booleans are 1 and 0", ""
    if fractions:
        number = "the whole part of the value, if it is a number; booleans are 1 and 0"
        fraction = "    double fraction;  /* the value, if it is a number, with its fraction: 0.5, or 4 */\n"
    return ("typedef struct {\n    const char *name;\n"
            "    const char *word; /* the value, if it is a word; else NULL */\n"
            f"    int64_t number;   /* {number} */\n{fraction}}} seqtune_setting;")


def _rest() -> str:
    return """typedef struct {
    const char *kernel;
    double log_probability; /* among all valid configurations of the problem, according to the model */
    int count;              /* of settings */
    seqtune_setting setting[SEQTUNE_PARAMETERS];
} seqtune_configuration;

/* Set the operation and its features' defaults; features without a default become unknown: set them. The result is 0,
 * or an error. */
int seqtune_problem_init(seqtune_problem *problem, seqtune_operation operation);

/* Make a device of which nothing is known: all its facts are 0. A limit that stays 0, such as max_work_group, allows
 * nothing, so set all that constraints read. */
void seqtune_device_init(seqtune_device *device);

/* Write the `count` best configurations for a problem on a device, best first, without measuring. The result is their
 * number, which is smaller if there are no more, or a negative error; then `out` is as it was. All strings in `out` are
 * constants. The function is reentrant: it has no variables that change, and takes its scratch memory,
 * seqtune_scratch_bytes(), from the stack. */
int seqtune_predict(const seqtune_problem *problem, const seqtune_device *device, seqtune_configuration *out,
                    int count);

/* The meaning of an error that a function returned, as text of one line. */
const char *seqtune_error_text(int result);

/* For example:
 *     seqtune_problem problem;
 *     seqtune_device device;
 *     seqtune_configuration best;
 *     seqtune_problem_init(&problem, ...);  then the sizes: problem.of.NAME.SIZE = ...
 *     seqtune_device_init(&device);         then its facts: device.backend = ...
 *     result = seqtune_predict(&problem, &device, &best, 1);
 *     if (result == 1) use best.kernel and best.setting; else puts(seqtune_error_text(result)); */

/* The same with the caller's scratch memory, aligned for a double, which need not be initialised. */
int seqtune_predict_in(void *scratch, size_t bytes, const seqtune_problem *problem, const seqtune_device *device,
                       seqtune_configuration *out, int count);

size_t seqtune_scratch_bytes(void);

#ifdef __cplusplus
}
#endif

#endif"""
