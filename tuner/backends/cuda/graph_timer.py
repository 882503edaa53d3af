"""GraphTimer: times launches by the GPU's events, inside graphs that are captured once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from .driver import Gpu, TimedGraph

GRAPH_LAUNCHES = 10  # in one graph: launching it costs the host about as much as one kernel


class GraphTimer:
    """Times `enqueue`, which puts launches into the GPU's stream. Close it to free its graphs."""

    def __init__(self, gpu: Gpu, flush: Callable[[], None], enqueue: Callable[[], None]) -> None:
        self._gpu, self._flush, self._enqueue = gpu, flush, enqueue
        self._graphs: dict[tuple[int, Callable[[], None] | None], TimedGraph] = {}

    def time(self, launches: int, restore: Callable[[], None] | None = None) -> float:
        """The seconds of `launches` runs of `enqueue`, each after `restore` and an L2 flush that are not counted."""
        repeats = GRAPH_LAUNCHES if launches >= GRAPH_LAUNCHES else 1
        if (repeats, restore) not in self._graphs:
            before = self._flush if restore is None else partial(_in_order, restore, self._flush)
            self._graphs[repeats, restore] = self._gpu.timed_graph(before, self._enqueue, repeats)
        graph = self._graphs[repeats, restore]
        runs = -(-launches // repeats)
        seconds = sum(self._gpu.run_graph(graph) for _ in range(runs))
        return seconds * launches / (runs * repeats)

    def close(self) -> None:
        """Free the graphs."""
        for graph in self._graphs.values():
            self._gpu.free_graph(graph)
        self._graphs = {}


def _in_order(*works: Callable[[], None]) -> None:
    for work in works:
        work()
