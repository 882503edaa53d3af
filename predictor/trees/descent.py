"""Descent: how rows go down the trees of a forest, compiled for this CPU on the first call.

The predictions of a row's trees are added in the order of the trees, whatever other rows there are.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.llvm.text.writer import Writer, declarations

from ..compiled import Functions, address, compiled

# Of an inner node: its threshold, its left child (counted from the tree's first node; the right one follows it) and its
# feature (counted from 1). A leaf has its value, is its own left child, and has feature 0.
NODE = np.dtype([("value", np.float32), ("left", np.uint16), ("feature", np.uint16)])
Nodes = NDArray[np.void]  # (node,) of NODE
BLOCK = 64  # rows that descend a tree together while its nodes are in the first-level cache
_LINE = 64  # bytes of a cache line
_SIGNATURES = {"descend": "ptr %x, i64 %rows, i64 %features, ptr %nodes, ptr %roots, i64 %trees, i64 %depth, "
                          "i64 %classes, ptr %y"}


def add_trees(rows: NDArray[np.float32], nodes: Nodes, roots: NDArray[np.int64], depth: int, classes: int
              ) -> NDArray[np.float32]:
    """The sums of what the trees predict for rows (row, feature): (row, class); tree t is of class t % classes.

    A row goes to the right child where its feature is at least the threshold. `roots` has the first node of each tree,
    then the number of nodes; `depth` is the most steps from a root to a leaf.
    """
    padded = np.empty((len(rows), rows.shape[1] + 1), np.float32)
    padded[:, 0] = -np.inf  # below every value, so that a row stays at a leaf
    padded[:, 1:] = rows
    sums, trees = np.zeros((len(rows), classes), np.float32), len(roots) - 1
    _functions()["descend"](address(padded), *padded.shape, address(nodes), address(roots), trees, depth,
                            classes, address(sums))
    return sums


@cache
def _functions() -> Functions:
    return compiled(_text, _SIGNATURES)


def _text(bits: int) -> str:
    """The module, which has no vectors."""
    write = Writer()
    steps = write.i64("umax", "%depth", 1)  # `repeat` runs at least once, which changes nothing at a leaf

    def root(tree: str) -> str:
        index = write.let(f"load i64, ptr {write.at('%roots', tree, 'i64')}, align 8")
        return write.at("%nodes", index, "i64")

    with write.loop(0, "%rows", BLOCK) as first:
        end = write.i64("smin", write.add(first, BLOCK), "%rows")
        with write.loop(0, "%trees") as tree:
            nodes, following = root(tree), root(write.add(tree, 1))
            later = root(write.i64("umin", write.add(tree, 2), "%trees"))
            size = write.i64("sub", *(write.let(f"ptrtoint ptr {pointer} to i64") for pointer in (later, following)))
            with write.loop(0, size, _LINE) as byte:  # each step waits for the memory of the one before
                write.do(f"call void @llvm.prefetch.p0(ptr {write.at(following, byte, 'i8')}, i32 0, i32 3, i32 1)")
            of_class = write.i64("urem", tree, "%classes")
            with write.loop(first, end) as row:
                x = write.at("%x", write.mul(row, "%features"))

                def step(carried: list[str]) -> list[str]:
                    node = write.at(nodes, carried[0], "i64")
                    threshold = write.load("float", node)
                    left, feature = (write.let(f"zext i16 {number} to i64") for number in (
                        write.let(f"load i16, ptr {write.at(node, part, 'i16')}, align 2") for part in (2, 3)))
                    value = write.load("float", write.at(x, feature))
                    right = write.let(f"zext i1 {write.let(f'fcmp oge float {value}, {threshold}')} to i64")
                    return [write.add(left, right)]

                leaf = write.repeat(steps, [("i64", "0")], step)[0]
                to = write.at("%y", write.add(write.mul(row, "%classes"), of_class))
                total = write.let(f"fadd float {write.load('float', to)}, "
                                  f"{write.load('float', write.at(nodes, leaf, 'i64'))}")
                write.store("float", total, to)
    function = write.function(f"void @descend({_SIGNATURES['descend']})")
    return f"{declarations()}\ndeclare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n{function}"
