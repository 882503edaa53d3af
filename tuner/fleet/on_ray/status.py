"""Status of a fleet: the nodes of a Ray cluster with the devices that they offer, and what its members do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .cluster import NAMESPACE, FleetAddress, RayCluster

ANSWER_SECONDS = 5.0  # that members have to answer


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """The nodes and the members of a cluster at a moment, as JSON objects."""

    nodes: tuple[dict[str, Any], ...]
    members: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, address: FleetAddress) -> ClusterStatus:
        """Ask a running cluster. Raises MisuseError if there is none."""
        cluster = RayCluster(address, "")
        try:
            nodes = tuple({"host": node["NodeManagerHostname"], "address": node["NodeManagerAddress"],
                           "alive": bool(node["Alive"]), "offers": _offers(node["Resources"])}
                          for node in cluster.nodes())
            return cls(nodes, tuple(_members(cluster.ray)))
        finally:
            cluster.close()


def _offers(resources: dict[str, float]) -> dict[str, int]:
    """The devices of a node by backend, and its GPUs."""
    return {name.removeprefix("seqtune_"): int(count) for name, count in sorted(resources.items())
            if name.startswith("seqtune_") or name == "GPU"}


def _members(ray: Any) -> list[dict[str, Any]]:
    """The states of all members that answer; one that does not has the state `silent`."""
    names = sorted(entry["name"] for entry in ray.util.list_named_actors(all_namespaces=True)
                   if entry["namespace"] == NAMESPACE)
    calls = {}
    for name in names:
        try:
            calls[ray.get_actor(name, namespace=NAMESPACE).status.remote()] = name
        except Exception:  # Ray's: it has ended meanwhile
            continue
    ready = ray.wait(list(calls), num_returns=len(calls), timeout=ANSWER_SECONDS)[0] if calls else []
    states = []
    for call, name in calls.items():
        try:
            states.append(json.loads(ray.get(call)) if call in ready else {"name": name, "state": "silent"})
        except Exception:  # Ray's: it has ended meanwhile
            states.append({"name": name, "state": "left"})
    return states
