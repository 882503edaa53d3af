"""NodeList: the nodes of a network in an order of execution, with their readers, while passes change them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .nodes import Node


class NodeList:
    """Nodes that the results need, in order. Every change keeps the readers up to date."""

    def __init__(self, nodes: Sequence[Node], results: Sequence[Node]) -> None:
        read = _needed(results)
        self.nodes = [node for node in nodes if node in read]
        self.results = list(results)
        self._readers: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        for node in self.nodes:
            for source in node.inputs:
                self._readers[source].append(node)

    def __iter__(self) -> Iterator[Node]:
        """The nodes as they are now; changes during the iteration do not disturb it."""
        return iter(list(self.nodes))

    def __contains__(self, node: Node) -> bool:
        return node in self._readers

    def readers(self, node: Node) -> list[Node]:
        """The nodes that read a node; a reader that reads it twice is listed twice."""
        return list(self._readers[node])

    def only_reader(self, node: Node) -> Node | None:
        """The only reader of a node that is read once and is no result; otherwise None."""
        readers = self._readers[node]
        return readers[0] if len(readers) == 1 and node not in self.results else None

    def insert_before(self, node: Node, *new: Node) -> None:
        """Insert nodes whose inputs stand before `node`."""
        at = self.nodes.index(node)
        self.nodes[at:at] = new
        for added in new:
            self._readers[added] = []
            for source in added.inputs:
                self._readers[source].append(added)

    def set_inputs(self, node: Node, inputs: Sequence[Node]) -> None:
        """Make a node read other nodes, and drop nodes that nothing reads any more."""
        old, node.inputs = node.inputs, list(inputs)
        for source in old:
            self._readers[source].remove(node)
        for source in inputs:
            self._readers[source].append(node)
        for source in old:
            self._drop_unread(source)

    def replace(self, old: Node, new: Node) -> None:
        """Make all readers of a node read another one, and drop the node."""
        for reader in dict.fromkeys(self._readers[old]):
            if reader is not new:
                count = reader.inputs.count(old)
                reader.inputs = [new if source is old else source for source in reader.inputs]
                self._readers[old] = [other for other in self._readers[old] if other is not reader]
                self._readers[new] += [reader] * count
        self.results = [new if result is old else result for result in self.results]
        self._drop_unread(old)

    def _drop_unread(self, node: Node) -> None:
        waiting = [node]
        while waiting:
            node = waiting.pop()
            if node in self._readers and not self._readers[node] and node not in self.results:
                self.nodes.remove(node)
                del self._readers[node]
                for source in node.inputs:
                    self._readers[source].remove(node)
                waiting += dict.fromkeys(node.inputs)


def _needed(results: Sequence[Node]) -> set[Node]:
    needed: set[Node] = set()
    waiting = list(results)
    while waiting:
        node = waiting.pop()
        if node not in needed:
            needed.add(node)
            waiting.extend(node.inputs)
    return needed
