"""The parts of a network's compilation: memory plan, list of nodes, layouts, rewriting, partition."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from seqtune.kernels.llvm.text.formula import Formula
from seqtune.kernels.problem import Problem
from seqtune.networks.capture.export import exported
from seqtune.networks.lowering.partition import fold_constants, segments_of, unknown_operations
from seqtune.networks.node_list import NodeList
from seqtune.networks.nodes import (
    Concatenation,
    Constant,
    Input,
    Layer,
    Node,
    Padding,
    Pointwise,
    Rearranged,
    RowOperation,
)
from seqtune.networks.passes.rewriting import rewrite
from seqtune.networks.plan.layouts import Layouts, Part, channels_last, image_pitch, row_pitch
from seqtune.networks.plan.memory import LINE, Buffer, plan
from seqtune.networks.steps.view import View

RELU, ADD, PRODUCT = Formula.of_activation("relu"), Formula.of("add", 0, 1), Formula.of("mul", 0, 1)


def operand(*shape: int) -> Input:
    """A contiguous operand."""
    return Input(shape, [], 0, View.contiguous(shape).strides)


def layer(x: Node, outputs: int) -> Layer:
    """A linear layer of ones."""
    rows, size = x.shape
    return Layer((rows, outputs), [x], Problem.make("gemm", m=rows, n=outputs, k=size, trans_b="yes"),
                 np.ones((outputs, size), np.float32), np.ones(outputs, np.float32))


def convolution(x: Node, outputs: int, pad: int = 0) -> Layer:
    """A 1x1 convolution."""
    n, c, h, w = x.shape
    problem = Problem.make("conv2d", n=n, c=c, h=h, w=w, k=outputs, r=1, s=1, pad_h=pad, pad_w=pad, layout="NHWC")
    return Layer((n, outputs, h + 2 * pad, w + 2 * pad), [x], problem, np.ones((outputs, c, 1, 1), np.float32), None)


def in_order(*results: Node) -> list[Node]:
    """The nodes that results need, inputs first."""
    nodes: dict[Node, None] = {}

    def visit(node: Node) -> None:
        for read in node.inputs:
            visit(read)
        nodes.setdefault(node)

    for result in results:
        visit(result)
    return list(nodes)


def rewritten(*results: Node) -> NodeList:
    """The network after all changes."""
    nodes = NodeList(in_order(*results), results)
    rewrite(nodes)
    return nodes


@pytest.mark.parametrize("seed", range(5))
def test_buffers_that_live_at_the_same_time_never_share_memory(seed: int) -> None:
    generator = random.Random(seed)
    buffers = []
    for _ in range(40):
        buffer = Buffer(generator.randrange(1, 2000))
        first = generator.randrange(30)
        for job in (first, first + generator.randrange(6)):
            buffer.used_by(job)
        buffers.append(buffer)
    size = plan([*buffers, Buffer(10_000)])  # one that nothing uses takes no memory
    for buffer in buffers:
        assert buffer.begin % LINE == 0
        assert buffer.begin + buffer.size <= size
    for one, other in itertools.combinations(buffers, 2):
        if one.first <= other.last and other.first <= one.last:
            assert one.begin + one.size <= other.begin or other.begin + other.size <= one.begin
    assert size < sum(buffer.size for buffer in buffers)


def test_a_chain_needs_the_memory_of_two_buffers() -> None:
    buffers = [Buffer(256, first=job, last=job + 1) for job in range(10)]
    assert plan(buffers) == 512
    assert plan([]) == 0


def test_nodes_that_nobody_reads_go_with_what_only_they_read() -> None:
    x = operand(4)
    first = Pointwise((4,), [x], RELU)
    second, result = Pointwise((4,), [first], RELU), Pointwise((4,), [x], RELU)
    unread = Pointwise((4,), [x], RELU)
    nodes = NodeList([x, first, second, unread, result], [second, result])
    assert unread not in nodes
    assert nodes.only_reader(first) is second
    assert nodes.only_reader(x) is None  # two readers
    assert nodes.only_reader(second) is None  # a result
    nodes.replace(second, result)
    assert list(nodes) == [x, result]
    assert nodes.results == [result, result]
    assert nodes.only_reader(x) is result


def test_a_node_that_reads_another_twice_is_not_its_only_reader() -> None:
    x = operand(4)
    first = Pointwise((4,), [x], RELU)
    twice, other = Pointwise((4,), [first, first], PRODUCT), Pointwise((4,), [x], RELU)
    nodes = NodeList([x, first, other, twice], [twice])
    assert nodes.only_reader(first) is None
    nodes = NodeList(in_order(twice), [twice])
    nodes.insert_before(twice, other)
    nodes.set_inputs(twice, [other, x])
    assert first not in nodes
    assert nodes.only_reader(other) is twice


def test_slices_of_images_and_of_rows_have_a_pitch() -> None:
    image = channels_last((2, 6, 4, 5))
    assert image_pitch(image) == 6
    assert image_pitch(image.sliced(1, 2, 5)) == 6
    assert image_pitch(View.contiguous((2, 6, 4, 5))) is None
    assert image_pitch(image.sliced(3, 0, 4)) is None  # pixels apart
    assert image_pitch(View.contiguous((1, 6, 1, 1))) == 6
    rows = View.contiguous((2, 3, 8))
    assert row_pitch(rows) == row_pitch(rows.sliced(2, 1, 5)) == 8
    assert row_pitch(rows.permuted((0, 2, 1))) is None
    assert row_pitch(rows.sliced(1, 0, 2)) is None


def test_what_is_computed_of_permuted_tokens_is_an_image() -> None:
    tokens = RowOperation((2, 5, 4, 3), [operand(2, 5, 4, 3)], "layer_norm")
    image = Rearranged((2, 3, 5, 4), [tokens], lambda view: view.permuted((0, 3, 1, 2)))
    other = Rearranged((2, 4, 5, 3), [tokens], lambda view: view.permuted((0, 2, 1, 3)))
    results = [Pointwise(read.shape, [read], RELU) for read in (image, other)]
    layouts = Layouts([*tokens.inputs, tokens, image, other, *results], results)
    assert [layouts.own(result) for result in results] == [channels_last((2, 3, 5, 4)), View.contiguous((2, 4, 5, 3))]


def test_parts_of_two_concatenations_lie_in_one_of_them() -> None:
    x = operand(1, 4, 3, 3)
    parts = [convolution(x, outputs) for outputs in (2, 3, 4)]
    inner = Concatenation((1, 5, 3, 3), [*parts[:2]], 1)
    outer = Concatenation((1, 9, 3, 3), [*parts], 1)
    layouts = Layouts([x, *parts, inner, outer], [outer])
    assert layouts.parts == {parts[0]: Part(outer, 1, 0), parts[1]: Part(outer, 1, 2), parts[2]: Part(outer, 1, 5),
                             inner: Part(outer, 1, 0)}


def test_operands_results_and_parts_that_appear_twice_are_copied_into_a_concatenation() -> None:
    x = operand(1, 4, 3, 3)
    part, result = convolution(x, 2), convolution(x, 3)
    whole = Concatenation((1, 11, 3, 3), [x, part, part, result], 1)
    assert not Layouts([x, part, result, whole], [whole, result]).parts


def test_a_residual_sum_with_relu_is_an_epilogue_of_the_later_layer() -> None:
    x = operand(3, 8)
    first, second = layer(x, 8), layer(x, 8)
    nodes = rewritten(Pointwise((3, 8), [Pointwise((3, 8), [first, second], ADD)], RELU))
    (result,) = nodes.results
    assert isinstance(result, Layer)
    assert result.inputs == [x, first]
    assert result.epilogue.numpy(np.array([1.0]), np.array([-3.0])) == 0
    assert nodes.nodes == [x, first, result]


def test_a_layer_that_is_a_result_or_read_twice_takes_nothing() -> None:
    x = operand(3, 8)
    first, second = layer(x, 8), layer(x, 8)
    after, twice = Pointwise((3, 8), [first], RELU), Pointwise((3, 8), [second, second], PRODUCT)
    nodes = rewritten(after, first, twice)
    assert [type(node) for node in nodes.results] == [Pointwise, Layer, Pointwise]


def test_factors_of_channels_go_into_weights_and_bias() -> None:
    x, factors = operand(3, 8), Constant((4,), [], np.array([1, 2, 3, 4], np.float32))
    nodes = rewritten(Pointwise((3, 4), [layer(x, 4), factors], PRODUCT))
    (result,) = nodes.results
    assert isinstance(result, Layer)
    assert result.weights[:, 0].tolist() == [1, 2, 3, 4]
    assert result.bias is not None
    assert result.bias.tolist() == [1, 2, 3, 4]
    assert nodes.nodes == [x, result]


@pytest.mark.parametrize(("images", "outputs", "epilogue", "taken"), [
    (1, 9, False, True), (1, 9, True, True), (1, 10, False, False), (2, 9, False, False)])
def test_factors_of_one_image_s_channels_multiply_the_weights_where_these_are_fewer_than_the_pixels(
        images: int, outputs: int, epilogue: bool, taken: bool) -> None:
    x, factors, other = operand(images, 4, 3, 3), operand(images, 4, 1, 1), operand(images, outputs, 3, 3)
    convolved: Node = convolution(Pointwise(x.shape, [factors, x], PRODUCT), outputs)
    if epilogue:
        convolved = Pointwise(convolved.shape, [convolved, other], ADD)
    (result,) = rewritten(convolved).results
    assert isinstance(result, Layer)
    others = [other] if epilogue else []
    assert result.others == others
    assert (result.inputs == [x, *others, factors]) == taken
    assert (result.scaled is not None) == taken


@pytest.mark.parametrize(("low", "high", "number", "taken"), [
    ((0, 0, 1, 2), (0, 0, 1, 2), 0.0, True), ((0, 0, 1, 0), (0, 0, 0, 0), 0.0, False),
    ((0, 0, 1, 1), (0, 0, 1, 1), 1.0, False), ((0, 1, 0, 0), (0, 1, 0, 0), 0.0, False)])
def test_a_border_of_zeros_that_is_the_same_on_both_sides_goes_into_the_convolution(
        low: tuple[int, ...], high: tuple[int, ...], number: float, taken: bool) -> None:
    x = operand(1, 4, 6, 6)
    shape = tuple(size + before + behind for size, before, behind in zip(x.shape, low, high, strict=True))
    convolved = convolution(Padding(shape, [x], low, high, number), 3)
    nodes = rewritten(convolved)
    assert (convolved.inputs == [x]) == taken
    assert len(nodes.nodes) == (2 if taken else 3)
    if taken:
        assert (convolved.problem["pad_h"], convolved.problem["pad_w"], convolved.problem["h"]) == (1, 2, 6)


def segments(function: Callable[[Tensor, nn.Linear], Tensor]) -> tuple[list[list[str]], list[str]]:
    """The operations of every segment, and the reasons why others stay PyTorch's."""
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return function(x, self.linear)

    module = exported(Model().eval(), (torch.randn(3, 4),)).module(check_guards=False)
    fold_constants(module)
    unknown = unknown_operations(module)
    found = [[node.name for node in segment.graph.graph.nodes if node.op == "call_function"]
             for segment in segments_of(module, unknown)]
    return found, [reason for node, reason in unknown.items() if "guards" not in node.name]


def test_operations_of_constants_are_computed_now() -> None:
    found, reasons = segments(lambda x, linear: linear(x) + torch.arange(4).float().sin().cumsum(0))
    assert found == [["linear", "add"]]
    assert not reasons


def test_a_branch_beside_an_unknown_operation_runs_with_the_first_segment() -> None:
    found, reasons = segments(lambda x, linear: linear(linear(x).sort(-1).values) + linear(x).relu())
    assert found == [["linear", "linear_2", "relu"], ["linear_1", "add"]]
    assert reasons[0] == "aten.sort has no translation"


def test_views_alone_are_no_segment() -> None:
    found, _ = segments(lambda x, linear: linear(x).sort(-1).values.reshape(2, 6).transpose(0, 1))
    assert found == [["linear"]]


def test_empty_tensors_and_other_types_stay_pytorch_s() -> None:
    found, reasons = segments(lambda x, linear: linear(x)[:, 2:2].sum() + linear(x).double().sum().float())
    assert found[0][:2] == ["linear", "linear_1"]
    assert not {"slice_1", "sum_1", "to", "sum_2"} & {name for names in found for name in names}
    assert any("has no elements" in reason for reason in reasons)
    assert any("another type" in reason for reason in reasons)


def test_reshaped_indices_that_something_else_reads_stay_pytorch_s() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(9, 4)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            first, second = x.view(-1), x.view(1, -1)
            return self.table(first), self.table(second), second.view(2, 3)

    module = exported(Model().eval(), (torch.zeros(3, 2, dtype=torch.int64),)).module(check_guards=False)
    unknown = unknown_operations(module)
    (segment,) = segments_of(module, unknown)
    assert {node.name for node in segment.results} == {"embedding", "embedding_1"}
    assert {node.name for node in segment.inside} - {"embedding", "embedding_1"} == {"view"}
    assert sum("outside of the program" in reason for reason in unknown.values()) == 2
