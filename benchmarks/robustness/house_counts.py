"""Count what exists several times in the sources: `python -m benchmarks house_counts [REVISION ...]`.

A launch model, an executable, a table of element types, guarded buffers, a loop of rounds and a statistic of which is
faster should each exist once. The program finds them by their form, so that moves and new names do not hide them. It
prints a table of their numbers and of the lines of every floor in every language, with a column for each git revision
and one for the files at hand. Below, it lists by name what each number counts; for the files at hand, with the reason
why it stands.
"""

from __future__ import annotations

import ast
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.common.program import OneLineParser
from benchmarks.common.report import markdown
from benchmarks.common.revisions import HERE, checkout

FLOORS = ("kernels", "data", "tuner", "predictor", "networks", "seqtune", "benchmarks", "tests")
PRODUCT = FLOORS[:6]
PARTS = {"the product": PRODUCT, "benchmarks": ("benchmarks",), "tests": ("tests",)}
LANGUAGES = {"Python": (".py",), "C": (".c", ".h", ".cpp", ".hpp"), "OpenCL": (".cl",), "CUDA": (".cu", ".cuh"),
             "JavaScript": (".js",), "HTML": (".html", ".css"), "shell": (".sh",)}
ELEMENTS = frozenset(("fp32", "fp16", "bf16", "fp64", "int8", "int32"))
LEAST_ELEMENTS = 3  # names in a literal that make it a table of element types
RUNS = frozenset(("load", "poison", "run", "overrun", "close"))  # the methods of an executable
STATISTICS = ("faster", "faster_than", "p_value", "signed_rank_p_value")  # functions that compare two series of times
PERMUTATIONS = ("permutation", "shuffle", "sample")  # NumPy's and Python's functions that draw an order
CLOCKS = ("perf_counter", "monotonic", "process_time")  # Python's functions that return seconds
HERE_COLUMN = "here"  # the files at hand
# Name that is counted here -> why it stands: it is the one of its noun, or there is a reason for another one.
REASONS: Mapping[str, str] = {
    "kernels/launches/call.py: Call": "the one, for OpenCL, CUDA and Triton",
    "kernels/llvm/launch.py: Launch": "llvm's kernels take ranges of tasks, which our own threads share",
    "tuner/backends/called_executable.py: CalledExecutable": "the one, for every backend with a CallDriver",
    "tuner/backends/llvm/backend.py: LLVMExecutable": "runs a Launch on our own threads, without a driver",
    "tuner/backends/command/executable.py: CommandExecutable": "a program, whose memory and times are its own",
    "tuner/backends/clblast/executable.py: CLBlastExecutable":
        "the library launches, and takes its parameters outside the time that is measured",
    "kernels/launches/implementation.py: Implementation": "the code of a kernel family",
    "kernels/launches/call.py: CalledImplementation": "an Implementation that makes a Call",
    "kernels/launches/call.py: Packing": "how an operand is packed: kernels choose among several ways",
    "tuner/backends/backend.py: Backend": "one device; a package from outside may have its own",
    "tuner/backends/backend.py: Executable": "what every backend builds",
    "tuner/backends/backend.py: SelfChecked": "an Executable that checks its own result, as programs do",
    "tuner/backends/backend.py: Restoring": "an Executable that restores what its launches change, as calls do",
    "tuner/backends/backend.py: ExecutableFactory": "an Implementation that makes executables, as a library does",
    "tuner/backends/backend.py: ReferenceWork": "work of known time, which differs between llvm and OpenCL",
    "tuner/backends/guarded_buffers.py: MemoryDriver": "memory, of a CallDriver or of this process",
    "tuner/backends/called_executable.py: CallDriver": "launches of OpenCL, CUDA or Triton",
    "tuner/backends/called_executable.py: CallTimer": "clocks: the host's, or the GPU's events",
    "tuner/backends/compilers.py: OfflineCompiler": "compiles for a device that is absent: CUDA, Triton",
    "tuner/backends/compilers.py: CompilerAhead": "compiles before the worker asks, on all cores: CUDA",
    "networks/program/bound_kernels.py: ThreadPool": "our own threads, or those of OpenMP, which PyTorch has",
    "kernels/devices/element_types.py: {element.name: element for element in (ElementType": "the one",
    "kernels/miopen/driver_command.py: {'conv': 'fp32', 'convfp16': 'fp16', 'convbfp16': ":
        "the commands of MIOpen's driver, by element type",
    "data/formats/miopen_terms.py: {'FP32': 'fp32', 'FP16': 'fp16', 'BF16': 'bf16', '":
        "the words in MIOpen's files, by element type",
    "data/formats/aiter_tuned.py: {'int8': 'int8', 'float8_e4m3fn': 'fp8', 'float8_e":
        "the words in aiter's files, by element type",
    "data/formats/gemlite_configs.py: {1: 'fp16', 2: 'bf16', 3: 'fp8', 4: 'int8', 12: 'f":
        "the numbers in gemlite's files, by element type",
    "kernels/operations/quantized_gemm.py: {'fp16': 16, 'bf16': 16, 'fp8': 8, 'int8': 8, 'fp4":
        "bits, also of types that nothing here runs: several of their numbers share a byte",
    "tuner/backends/cuda/libcuda.py: {'fp32': 7, 'fp16': 6, 'bf16': 9}":
        "the numbers of CUtensorMapDataType, which only the driver's tensor maps use",
    "tuner/building/templates/arrays.py: {'fp16': 'f2', 'bf16': 'u2', 'fp32': 'f4', 'fp64':":
        "a file of built folders, which need no seqtune",
    "tuner/building/templates/cuda.py: {'fp32': 7, 'fp16': 6, 'bf16': 9}":
        "a file of built folders: the driver's numbers of element types",
    "tuner/building/templates/triton_end.py: {'fp16': torch.float16, 'bf16': torch.bfloat16, 'f":
        "a file of built folders, which need no seqtune",
    "tuner/backends/guarded_buffers.py: GuardedBuffers": "the one",
    "tuner/measuring/comparison.py: sample_in_rounds": "the one",
    "tuner/measuring/comparison.py": "the one",
    "tuner/strategies/t_test.py": "Droplet Search moves by it, as published; its samples are no pairs",
}


@dataclass
class Counts:
    """The names of each noun, as `file: name`, and the lines of each floor."""

    names: dict[str, list[str]] = field(default_factory=dict)
    lines: dict[tuple[str, str], int] = field(default_factory=dict)  # (floor, language) -> lines


def _methods(node: ast.ClassDef) -> set[str]:
    return {part.name for part in node.body if isinstance(part, ast.FunctionDef)}


def _is_protocol(node: ast.ClassDef) -> bool:
    return any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases)


def is_launch(path: Path, node: ast.AST) -> bool:
    """A class of kernels that lists the steps of one run."""
    return isinstance(node, ast.ClassDef) and path.parts[0] == "kernels" and not _is_protocol(node) and any(
        isinstance(part, ast.AnnAssign) and ast.unparse(part.target) in ("phases", "steps")
        and any(word in ast.unparse(part.annotation) for word in ("Phase", "Step")) for part in node.body)


def is_executable(path: Path, node: ast.AST) -> bool:
    """A class with the methods of an executable."""
    return isinstance(node, ast.ClassDef) and not _is_protocol(node) and _methods(node) >= RUNS - {"overrun", "load"} \
        and bool(_methods(node) & {"output", "outputs", "output_check"})


def is_protocol(path: Path, node: ast.AST) -> bool:
    """A protocol of the backends, of launches or of a network's program."""
    near = path.parts[:2] in (("tuner", "backends"), ("kernels", "launches"), ("kernels", "calls"),
                              ("networks", "program"))
    return isinstance(node, ast.ClassDef) and _is_protocol(node) and (near or path.name == "implementation.py")


def is_type_table(path: Path, node: ast.AST) -> bool:
    """A dictionary, or a list of names, of at least LEAST_ELEMENTS element types with something about each."""
    if isinstance(node, ast.Dict):
        return _elements([*node.keys, *node.values]) >= LEAST_ELEMENTS
    if isinstance(node, ast.DictComp):
        return _elements(list(ast.walk(node))) >= LEAST_ELEMENTS
    if isinstance(node, ast.Constant) and isinstance(node.value, str):  # a table in an expression's text
        return node.value.startswith("{") and sum(f"'{name}':" in node.value for name in ELEMENTS) >= LEAST_ELEMENTS
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Literal":
        return _elements(list(ast.walk(node.slice))) >= LEAST_ELEMENTS
    return False


def _elements(nodes: Sequence[ast.AST | None]) -> int:
    """The number of different element types that the nodes name."""
    words = [part.value for part in nodes if isinstance(part, ast.Constant)]
    return len(ELEMENTS & {word for word in words if isinstance(word, str)})


def is_buffer(path: Path, node: ast.AST) -> bool:
    """A class of the backends that compares the margins around memory with canaries."""
    if not isinstance(node, ast.ClassDef) or path.parts[:2] != ("tuner", "backends"):
        return False
    compared = (ast.unparse(part).lower() for part in ast.walk(node)
                if isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.Eq | ast.NotEq))
    return any("canar" in text or "margin" in text for text in compared)


def is_rounds(path: Path, node: ast.AST) -> bool:
    """A function that runs several contestants in rounds: a loop of turns inside a loop of rounds.

    Either the order of the turns is drawn in each round, or a clock is read in each turn.
    """
    if not isinstance(node, ast.FunctionDef):
        return False
    loops = [outer for outer in ast.walk(node) if isinstance(outer, ast.For | ast.While)]
    inner = [(outer, part) for outer in loops for part in ast.walk(outer) if part is not outer]
    drawn = (part.iter if isinstance(part, ast.For) else part.value
             for _, part in inner if isinstance(part, ast.For | ast.Expr))
    if any(_calls(part, PERMUTATIONS) for part in drawn) and "seconds" in ast.unparse(node):
        return True
    return any(isinstance(part, ast.For) and isinstance(outer, ast.For) and _calls(outer.iter, ("range",))
               and any(isinstance(term, ast.BinOp) and isinstance(term.op, ast.Sub) and _calls(term.left, CLOCKS)
                       for term in ast.walk(part)) for outer, part in inner)


def _calls(node: ast.AST, names: Sequence[str]) -> bool:
    """Whether an expression calls a function or method of one of these names."""
    functions = (call.func for call in ast.walk(node) if isinstance(call, ast.Call))
    return any((isinstance(function, ast.Attribute) and function.attr in names)
               or (isinstance(function, ast.Name) and function.id in names) for function in functions)


def is_statistic(path: Path, node: ast.AST) -> bool:
    """A module that says which of two series of times is less: by a p-value, or by their medians or least times."""
    if not isinstance(node, ast.Module):
        return False
    functions = [part for part in ast.walk(node) if isinstance(part, ast.FunctionDef)]
    return any(part.name in STATISTICS or part.name.endswith("is_faster") for part in functions)


NOUNS: Mapping[str, tuple[Callable[[Path, ast.AST], bool], tuple[str, ...]]] = {
    "launch models": (is_launch, PRODUCT), "executables": (is_executable, PRODUCT),
    "protocols around them": (is_protocol, PRODUCT), "tables of element types": (is_type_table, PRODUCT),
    "guarded buffers": (is_buffer, PRODUCT), "loops of rounds": (is_rounds, (*PRODUCT, "benchmarks")),
    "statistics of which is faster": (is_statistic, (*PRODUCT, "benchmarks"))}


def files(tree: Path) -> Iterator[Path]:
    """The files of every floor, relative to the tree; links are not followed."""
    for floor in FLOORS:
        for path in sorted((tree / floor).rglob("*")):
            inner = path.relative_to(tree)
            linked = any((tree / parent).is_symlink() for parent in inner.parents)
            if path.is_file() and not linked and "__pycache__" not in inner.parts:
                yield inner


def counted(tree: Path) -> Counts:
    """Count everything in a tree of sources."""
    counts = Counts()
    for path in files(tree):
        language = next((language for language, suffixes in LANGUAGES.items() if path.suffix in suffixes), None)
        if language is None:
            continue
        text = (tree / path).read_text()
        floor = path.parts[0], language
        counts.lines[floor] = counts.lines.get(floor, 0) + text.count("\n")
        if language == "Python":
            for node in ast.walk(ast.parse(text)):
                for noun, (matches, floors) in NOUNS.items():
                    if path.parts[0] in floors and matches(path, node):
                        counts.names.setdefault(noun, []).append(": ".join(filter(None, (str(path), _name(node)))))
    return counts


def _name(node: ast.AST) -> str:
    """The name of a class or function, the beginning of an expression; empty for a module."""
    if isinstance(node, ast.Module):
        return ""
    return str(getattr(node, "name", "")) or f"{ast.unparse(node):.50}"


def table(columns: Mapping[str, Counts]) -> str:
    """The counts side by side."""
    rows = [[noun, *(str(len(counts.names.get(noun, []))) for counts in columns.values())] for noun in NOUNS]
    for part, floors_of_part in PARTS.items():
        totals = (sum(lines for (floor, _), lines in counts.lines.items() if floor in floors_of_part)
                  for counts in columns.values())
        rows.append([f"lines of {part}, all languages", *map(str, totals)])
    floors = dict.fromkeys(floor for counts in columns.values() for floor in counts.lines)
    rows += [[f"lines of {language} in {floor}/",
              *(str(counts.lines.get((floor, language), 0)) for counts in columns.values())]
             for floor, language in sorted(floors, key=lambda both: (FLOORS.index(both[0]), both[1]))]
    return markdown(["", *columns], rows)


def listing(counts: Counts, reasons: Mapping[str, str]) -> str:
    """The table of all counted names, with the reason where one is known."""
    return markdown(["noun", "name", "why it stands"], [
        [noun, name, reasons.get(name, "")] for noun in NOUNS for name in counts.names.get(noun, [])], left=3)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    parser.add_argument("revisions", nargs="*", metavar="REVISION", help="git revisions to count as well")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        columns = {revision: counted(checkout(revision, Path(scratch) / str(number)))
                   for number, revision in enumerate(given.revisions)} | {HERE_COLUMN: counted(HERE)}
    print(table(columns))
    for column, counts in columns.items():
        print(f"\n{column}\n\n{listing(counts, REASONS if column == HERE_COLUMN else {})}")
