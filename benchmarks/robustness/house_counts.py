"""Count what exists several times in the sources: `python -m benchmarks.house_counts [REVISION ...]`.

A launch, an executable, a table of element types, guarded buffers, a loop of rounds in turns and a statistic of which
is faster should each exist once. The program finds them by their form, so that moves and new names do not hide them,
and prints a table with a column for each git revision and one for the files at hand, and the lines of every floor.
"""

from __future__ import annotations

import ast
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.common.program import OneLineParser, run_program
from benchmarks.common.report import markdown
from benchmarks.common.revisions import HERE, checkout

FLOORS = ("kernels", "data", "tuner", "predictor", "networks", "seqtune", "benchmarks", "tests")
PRODUCT = FLOORS[:6]
TEXTS = {"Python": (".py",), "C": (".c", ".h"), "text": (".md", ".toml", ".html", ".js", ".css")}
ELEMENTS = frozenset(("fp32", "fp16", "bf16", "fp64", "int8", "int32"))
LEAST_ELEMENTS = 3  # names in a literal that make it a table of element types
RUNS = frozenset(("load", "poison", "run", "overrun", "close"))  # the methods of an executable
STATISTICS = ("faster", "faster_than", "p_value", "signed_rank_p_value")  # functions that compare two series of times
PERMUTATIONS = ("permutation", "shuffle", "sample")  # NumPy's and Python's functions that draw an order


@dataclass
class Counts:
    """The matches of each noun as `file: name`, and the lines of each floor."""

    found: dict[str, list[str]] = field(default_factory=dict)
    lines: dict[tuple[str, str], int] = field(default_factory=dict)  # (floor, kind of text) -> lines

    def add(self, noun: str, path: Path, name: str) -> None:
        """Count one."""
        self.found.setdefault(noun, []).append(f"{path}: {name}")


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
        and bool(_methods(node) & {"output", "outputs", "judgement"})


def is_protocol(path: Path, node: ast.AST) -> bool:
    """A protocol of the backends or of launches."""
    near = path.parts[:2] in (("tuner", "backends"), ("kernels", "launches"), ("kernels", "calls"))
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
    """A class of the tuner that keeps canaries around memory."""
    if not isinstance(node, ast.ClassDef) or path.parts[0] != "tuner" or _is_protocol(node):
        return False
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return bool(names & {"CANARY", "MARGIN"}) and ("allocate" in ast.unparse(node) or "torch.zeros" in ast.unparse(node)
                                                  or "_margins" in ast.unparse(node))


def is_turns(path: Path, node: ast.AST) -> bool:
    """A function that runs several contestants in rounds: a loop over an order that is drawn inside another loop."""
    if not isinstance(node, ast.FunctionDef):
        return False
    drawn = (inner.iter if isinstance(inner, ast.For) else inner.value
             for outer in ast.walk(node) if isinstance(outer, ast.For | ast.While)
             for inner in ast.walk(outer) if inner is not outer and isinstance(inner, ast.For | ast.Expr))
    return any(map(_draws, drawn)) and "seconds" in ast.unparse(node)


def _draws(node: ast.AST) -> bool:
    return any(isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in PERMUTATIONS
               for call in ast.walk(node))


def is_statistic(path: Path, node: ast.AST) -> bool:
    """A module that says which of two series of times is less: by a p-value, or by their medians or least times."""
    if not isinstance(node, ast.Module):
        return False
    functions = [part for part in ast.walk(node) if isinstance(part, ast.FunctionDef)]
    return any(part.name in STATISTICS or part.name.endswith("is_faster") for part in functions)


NOUNS: Mapping[str, tuple[Callable[[Path, ast.AST], bool], tuple[str, ...]]] = {
    "launch models": (is_launch, PRODUCT), "executables": (is_executable, PRODUCT),
    "protocols around them": (is_protocol, PRODUCT), "tables of element types": (is_type_table, PRODUCT),
    "guarded buffers": (is_buffer, PRODUCT), "loops of rounds in turns": (is_turns, (*PRODUCT, "benchmarks")),
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
        kind = next((kind for kind, suffixes in TEXTS.items() if path.suffix in suffixes), None)
        if kind is None:
            continue
        text = (tree / path).read_text()
        floor = path.parts[0], kind
        counts.lines[floor] = counts.lines.get(floor, 0) + text.count("\n")
        if kind == "Python":
            for node in ast.walk(ast.parse(text)):
                for noun, (matches, floors) in NOUNS.items():
                    if path.parts[0] in floors and matches(path, node):
                        counts.add(noun, path, getattr(node, "name", f"line {getattr(node, 'lineno', 0)}"))
    return counts


def table(columns: Mapping[str, Counts]) -> str:
    """The counts side by side."""
    rows = [[noun, *(str(len(counts.found.get(noun, []))) for counts in columns.values())] for noun in NOUNS]
    floors = dict.fromkeys(floor for counts in columns.values() for floor in counts.lines)
    rows += [[f"lines of {kind} in {floor}/", *(str(counts.lines.get((floor, kind), 0)) for counts in columns.values())]
             for floor, kind in sorted(floors, key=lambda both: (FLOORS.index(both[0]), both[1]))]
    return markdown(["", *columns], rows)


def main() -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    parser.add_argument("revisions", nargs="*", metavar="REVISION", help="git revisions to count as well")
    parser.add_argument("--places", action="store_true", help="print where each was found, too")
    given = parser.parse_args()

    def program() -> None:
        with tempfile.TemporaryDirectory() as scratch:
            columns = {revision: counted(checkout(revision, Path(scratch) / str(number)))
                       for number, revision in enumerate(given.revisions)} | {"here": counted(HERE)}
        print(table(columns))
        for name, counts in columns.items() if given.places else ():
            for noun, places in counts.found.items():
                print(f"\n{name}, {noun}:", *places, sep="\n  ", file=sys.stderr)

    run_program("house_counts", program)


if __name__ == "__main__":
    main()
