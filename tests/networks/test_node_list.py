"""The list of nodes: readers, replaced nodes, and nodes that nothing reads any more."""

from __future__ import annotations

from seqtune.networks.node_list import NodeList
from seqtune.networks.nodes import Pointwise
from tests.support.networks.nodes import PRODUCT, RELU, in_order, operand


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
