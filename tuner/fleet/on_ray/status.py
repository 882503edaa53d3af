"""FleetStatus: the nodes of a Ray cluster with the devices that they offer, and the members, which are named actors."""

from __future__ import annotations

import json
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from typing import Any

from .cluster import NAMESPACE, FleetAddress, RayCluster

ANSWER_SECONDS = 5.0  # that members have to answer


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """The nodes of a fleet with what they offer, its members, and the run that a driver reports."""

    nodes: tuple[dict[str, Any], ...]  # host, address, alive, offers (backend -> number of devices)
    members: tuple[dict[str, Any], ...]  # name, answers (whether it does)
    run: dict[str, Any] | None  # a FleetProgress as JSON

    @classmethod
    def of(cls, address: FleetAddress) -> FleetStatus:
        """Ask a running cluster. Raises MisuseError if there is none."""
        with closing(RayCluster(address, "")) as cluster:
            ray = cluster.ray
            nodes = tuple({"host": node["NodeManagerHostname"], "address": node["NodeManagerAddress"],
                           "alive": bool(node["Alive"]), "offers": _offers(node["Resources"])}
                          for node in ray.nodes())
            names = sorted(entry["name"] for entry in ray.util.list_named_actors(all_namespaces=True)
                           if entry["namespace"] == NAMESPACE)
            notes = _notes(ray, names)
        members = tuple({"name": name, "answers": name in notes} for name in names)
        return cls(nodes, members, next((json.loads(note) for note in notes.values() if note), None))

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return asdict(self)


def _offers(resources: dict[str, float]) -> dict[str, int]:
    """The devices of a node by backend, and its GPUs."""
    return {name.removeprefix("seqtune_"): int(count) for name, count in sorted(resources.items())
            if name.startswith("seqtune_") or name == "GPU"}


def _notes(ray: Any, names: list[str]) -> dict[str, str]:
    """What the driver has left with each of the members that answer; an empty text where that is nothing."""
    calls, notes = {}, {}
    for name in names:
        with suppress(Exception):  # Ray's: it has ended meanwhile
            calls[ray.get_actor(name, namespace=NAMESPACE).noted.remote()] = name
    for call in ray.wait(list(calls), num_returns=len(calls), timeout=ANSWER_SECONDS)[0] if calls else ():
        with suppress(Exception):  # as above
            notes[calls[call]] = str(ray.get(call))
    return notes
