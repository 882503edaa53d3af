"""The models of the ONNX package's own backend tests, and random nodes: what `read_onnx` describes.

A problem is right if it has the floating-point operations that follow from the shapes of the node's weights and of its
result, which ONNX's shape inference gives for the model alone.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import onnx
import pytest

from seqtune.errors import ProblemError
from seqtune.kernels.problem_sets.from_onnx import ProblemNode, read_onnx
from tests.peers.verdicts import Verdicts
from tests.support.onnx_files import write_onnx

LEAST = 1139  # convolutions and matrix products that are right
MODELS, NODES = 5, 100  # of random nodes


def models(folder: Path) -> Iterator[tuple[str, Path]]:
    """The names and files of all models: those that the package makes, written to a folder, and those that it holds."""
    from onnx.backend.test import loader
    from onnx.backend.test.case import model, node

    for index, case in enumerate((*node.collect_testcases(None), *model.collect_testcases())):
        if case.model is not None:
            onnx.save_model(case.model, folder / f"{index}.onnx")
            yield case.name, folder / f"{index}.onnx"
    for path in sorted(Path(loader.DATA_DIR).rglob("*.onnx")):
        yield path.relative_to(loader.DATA_DIR).as_posix(), path


def random_nodes(folder: Path) -> Iterator[tuple[str, Path]]:
    """The names and files of models with NODES random convolutions and products each."""
    for seed in range(MODELS):
        source, nodes, inputs, weights = random.Random(seed), [], {}, {}
        for index in range(NODES):
            left, right, node = _random_node(source, index)
            nodes.append(node)
            inputs[f"x{index}"], weights[f"w{index}"] = left, right
        yield f"random {seed}", write_onnx(folder / f"random-{seed}.onnx", nodes, inputs, weights)


def _random_node(source: random.Random, index: int) -> tuple[list[int], list[int], onnx.NodeProto]:
    """The shapes of a node's two operands, and the node."""
    kind, make = source.choice(("Conv", "Gemm", "MatMul")), onnx.helper.make_node
    operands, m, n, k = [f"x{index}", f"w{index}"], *(source.randint(1, 40) for _ in range(3))
    if kind == "Gemm":
        across = source.random() < 0.5, source.random() < 0.5
        return ([k, m] if across[0] else [m, k], [n, k] if across[1] else [k, n], make(
            kind, operands, [f"y{index}"], transA=int(across[0]), transB=int(across[1])))
    if kind == "MatMul":
        batch = [source.randint(1, 4) for _ in range(source.randint(0, 2))]
        return [*batch, m, k], source.choice(([k, n], [*batch, k, n])), make(kind, operands, [f"y{index}"])
    groups, filters = source.choice((1, 1, 2, 3)), [source.choice((1, 3, 5)) for _ in range(2)]
    padding = source.choice(({}, {"pads": [source.randint(0, 2) for _ in range(4)]}, {"auto_pad": "SAME_UPPER"}))
    return ([source.randint(1, 3), 4 * groups, *(source.randint(12, 30) for _ in range(2))],
            [groups * source.randint(1, 8), 4, *filters],
            make(kind, operands, [f"y{index}"], group=groups, strides=[source.randint(1, 3) for _ in range(2)],
                 dilations=[source.randint(1, 2) if not padding else 1 for _ in range(2)], **padding))


def operations(node: onnx.NodeProto, shapes: Mapping[str, tuple[int, ...]]) -> int:
    """The floating-point operations of a node, by its operands' and its result's shapes."""
    result = math.prod(shapes[node.output[0]])
    first, second = (shapes[name] for name in node.input[:2])
    if node.op_type == "Conv":
        return 2 * result * math.prod(second[1:])
    transposed = {attribute.name: attribute.i for attribute in node.attribute}.get("transA", 0)
    return 2 * result * (first[0] if transposed else first[-1])


def shapes_of(path: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of a model's values by name, as far as ONNX infers them."""
    graph = onnx.shape_inference.infer_shapes(onnx.load_model(path), data_prop=True).graph
    shapes = {value.name: tuple(axis.dim_value for axis in value.type.tensor_type.shape.dim)
              for value in (*graph.input, *graph.value_info, *graph.output)}
    return shapes | {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}


def fault(found: ProblemNode, nodes: Mapping[str, onnx.NodeProto], shapes: Mapping[str, tuple[int, ...]]) -> str:
    """The fault of a problem; empty if it is right."""
    ours, theirs = found.count * found.problem.size("flop"), operations(nodes[found.name], shapes)
    return "" if ours == theirs else f"{ours} operations, not {theirs}: {found.problem.brief()} x {found.count}"


@pytest.mark.filterwarnings("ignore")  # of the package's own arithmetic
def test_convolutions_and_products_of_onnx_are_the_problems_that_they_are(
        tmp_path: Path, request: pytest.FixtureRequest) -> None:
    verdicts = Verdicts()
    for name, path in itertools.chain(random_nodes(tmp_path), models(tmp_path)):
        try:
            described = read_onnx(path)
        except ProblemError as error:
            if "has no convolution and no matrix product" not in str(error):
                verdicts.refused[name] = str(error).removeprefix(str(path))
            continue
        except Exception as error:
            verdicts.wrong[name] = repr(error)
            continue
        shapes = shapes_of(path)
        nodes = {node.name or node.output[0]: node for node in onnx.load_model(path).graph.node}
        for found in described.nodes:
            verdicts.judge(f"{name} {found.name}", partial(fault, found, nodes, shapes))
        verdicts.refused.update({f"{name} {left.name}": left.reason for left in described.undescribed})
    verdicts.check(LEAST, request)
