"""Programs that tune on Ray, for tests. They run in processes of their own, because Ray reads its variables once.

    python -m tests.support.fleet.ray_runs nodes JOURNAL         two nodes on this machine; a member's process is killed
    python -m tests.support.fleet.ray_runs interrupted JOURNAL   two local members; Ctrl-C after the first answers

Controls may differ by any factor here: the tests ask for records, on machines that do other work.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import seqtune
from seqtune.__main__ import main
from seqtune.tuner.fleet import control
from seqtune.tuner.fleet.engine import Answered, Event, Joined, Left
from seqtune.tuner.fleet.fleet_run import FleetRun
from seqtune.tuner.fleet.on_ray import ray_cluster

PROBLEM = "gemm m=16 n=16 k=16"
TRIALS = 12
SEED = 5


def on_events(see: Callable[[Event], None]) -> None:
    """Let a function see every event of a run before the run does."""
    handle = FleetRun._handle

    def watched(run: FleetRun, event: Event) -> None:
        see(event)
        handle(run, event)

    setattr(FleetRun, "_handle", watched)  # noqa: B010 - mypy takes no assignment to a method


def nodes(journal: str) -> dict[str, object]:
    """Tune on two nodes of one machine. The process of the member that answers first is killed."""
    ray = ray_cluster.import_ray(local=True)
    from ray._private.state import actors
    from ray.cluster_utils import Cluster

    cluster: Any = Cluster()
    for _ in range(2):
        cluster.add_node(num_cpus=0, resources={"seqtune_llvm": 1}, object_store_memory=ray_cluster.STORE_BYTES)
    ray.init(address=cluster.address, namespace=ray_cluster.NAMESPACE, log_to_driver=False)
    joined, left = list[str](), list[tuple[str, str]]()

    def see(event: Event) -> None:
        if isinstance(event, Joined):
            joined.append(event.member.name)
        elif isinstance(event, Left):
            left.append((event.name, event.reason))
        elif isinstance(event, Answered) and not killed:
            killed.append(next(int(actor["Pid"]) for actor in actors().values() if actor["Name"] == event.name))
            os.kill(killed[0], signal.SIGKILL)

    killed: list[int] = []
    on_events(see)
    report = seqtune.tune(PROBLEM, "llvm:0", strategy="random", trials=TRIALS, seed=SEED, journal=journal, fleet="auto")
    connected = ray.is_initialized()
    ray.shutdown()
    cluster.shutdown()
    return {"trials": report.results[0].trials, "joined": joined, "left": left, "connected": connected}


def interrupted(journal: str) -> dict[str, object]:
    """Tune on two local members; after some answers, Ctrl-C reaches all processes of the terminal."""
    answers = list[Event]()

    def see(event: Event) -> None:
        if isinstance(event, Answered):
            answers.append(event)
            if len(answers) == TRIALS:
                os.killpg(os.getpgrp(), signal.SIGINT)

    on_events(see)
    code = main(["tune", *PROBLEM.split(), "--device", "opencl:0", "--strategy", "exhaustive", "--seed", str(SEED),
                 "--journal", journal, "--fleet", "local:2"])
    return {"code": code}


if __name__ == "__main__":
    control.BOUND = 1e9
    print(json.dumps({"nodes": nodes, "interrupted": interrupted}[sys.argv[1]](*sys.argv[2:])))
