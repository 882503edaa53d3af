"""Rewriting: what layers take in, and what stays a node of its own."""

from __future__ import annotations

import numpy as np
import pytest

from seqtune.networks.node_list import NodeList
from seqtune.networks.nodes import Constant, Layer, Node, Padding, Pointwise
from seqtune.networks.passes.rewriting import rewrite
from tests.support.networks.nodes import ADD, PRODUCT, RELU, convolution, in_order, layer, operand


def rewritten(*results: Node) -> NodeList:
    """The network after all changes."""
    nodes = NodeList(in_order(*results), results)
    rewrite(nodes)
    return nodes


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
