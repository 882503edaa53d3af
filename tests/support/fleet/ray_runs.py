"""Programs that tune on Ray, for tests. They run in processes of their own, because Ray reads its variables once.

    python -m tests.support.fleet.ray_runs nodes JOURNAL         two nodes on this machine, of which one is lost
    python -m tests.support.fleet.ray_runs stopped JOURNAL SIGINT    local members; a signal after some answers
    python -m tests.support.fleet.ray_runs killed JOURNAL        local members; SIGKILL after the first records
    python -m tests.support.fleet.ray_runs finished JOURNAL      the same to its end
    python -m tests.support.fleet.ray_runs bare                  start Ray without seqtune: can it be started here?

Controls may differ by any factor here: the tests ask for records, on machines that do other work.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import psutil

import seqtune
from seqtune.__main__ import main
from seqtune.api.tuning import fleet
from seqtune.tuner.fleet import control
from seqtune.tuner.fleet import run as fleet_run
from seqtune.tuner.fleet.engine import Answered, Event, Joined, Left
from seqtune.tuner.fleet.group_search import GroupSearch, JournalWriter
from seqtune.tuner.fleet.on_ray import cluster as ray_cluster
from seqtune.tuner.fleet.on_ray import engine as ray_engine
from seqtune.tuner.fleet.run import FleetRun

PROBLEMS = ("gemm m=16 n=16 k=16", "gemm m=12 n=16 k=8")
TRIALS = 10  # of each problem
SEED = 5
OPENCL_PROBLEM = "gemm m=7 n=7 k=7"  # 28 configurations
BLOCK = 8  # answers of a block, so that the journal has records before the end

Answer = dict[str, object]


def on_events(see: Callable[[FleetRun, Event], None]) -> None:
    """Let a function see every event of a run before the run does."""
    handle = FleetRun._handle

    def watched(run: FleetRun, event: Event) -> None:
        see(run, event)
        handle(run, event)

    setattr(FleetRun, "_handle", watched)  # noqa: B010 - mypy takes no assignment to a method


def nodes(journal: str) -> Answer:
    """Tune on two nodes of one machine. When both have answered trials, a member is killed, and the other's node."""
    ray = ray_cluster.import_ray(local=True)
    from ray._private.state import actors
    from ray.cluster_utils import Cluster

    store = ray_cluster.STORE_BYTES
    try:
        cluster: Any = Cluster()
        cluster.add_node(num_cpus=0, object_store_memory=store)  # the head, and the driver's node
        workers = [cluster.add_node(num_cpus=0, resources={"seqtune_llvm": 1}, object_store_memory=store)
                   for _ in range(2)]
        ray.init(address=cluster.address, namespace=ray_cluster.NAMESPACE, log_to_driver=False)
    except Exception as error:
        return {"unavailable": str(error)}
    joined, left, lost, trials = list[str](), list[tuple[str, str]](), list[str](), Counter[str]()
    status = list[dict[str, Any]]()

    def see(run: FleetRun, event: Event) -> None:
        if isinstance(event, Joined):
            joined.append(event.member.name)
        elif isinstance(event, Left):
            left.append((event.name, event.reason))
        elif isinstance(event, Answered):
            handed = run.roster.members[event.name].handed.get(event.number)
            trials[event.name] += handed is not None and handed.search is not None
            if len(+trials) == 2 and not lost:
                status.append(fleet.fleet_status("auto").to_json())
                lose(event.name)

    def lose(name: str) -> None:
        """Kill the process of this member, and the node of the other one."""
        entries = {actor["Name"]: actor for actor in actors().values() if actor["State"] == "ALIVE"}
        lost.extend([name, *(other for other in entries if other != name)])
        node = next(node for node in workers if node.node_id == entries[lost[1]]["Address"]["NodeID"])
        os.kill(int(entries[name]["Pid"]), signal.SIGKILL)
        raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
        for process in (raylet, *raylet.children(recursive=True)):
            process.kill()

    on_events(see)
    report = seqtune.tune(PROBLEMS, "llvm:0", strategy="random", trials=TRIALS, seed=SEED, journal=journal,
                          fleet="auto")
    connected = ray.is_initialized()
    ray.shutdown()
    cluster.shutdown()
    return {"trials": [result.trials for result in report.results], "joined": joined, "left": left, "lost": lost,
            "shared": dict(trials), "connected": connected, "status": status}


def stopped(journal: str, name: str) -> Answer:
    """Tune on two local members. After some answers, Ctrl-C reaches all processes of the terminal, SIGTERM only one."""
    seen = list[Event]()
    send = os.killpg if name == "SIGINT" else os.kill

    def see(run: FleetRun, event: Event) -> None:
        if isinstance(event, Answered):
            seen.append(event)
            if len(seen) == 2 * BLOCK:
                send(os.getpgrp() if name == "SIGINT" else os.getpid(), signal.Signals[name])

    on_events(see)
    return finished(journal)


def killed(journal: str) -> Answer:
    """Tune on two local members. The driver is killed when it has written the first records."""
    write = JournalWriter.write

    def watched(writer: JournalWriter) -> list[GroupSearch]:
        proved = len(writer.unwritten)
        searches = write(writer)
        if searches:
            print(json.dumps({"written": proved - len(writer.unwritten)}), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        return searches

    setattr(JournalWriter, "write", watched)  # noqa: B010 - as above
    return finished(journal)


def finished(journal: str) -> Answer:
    """Tune on two local members by the command."""
    code = main(["tune", *OPENCL_PROBLEM.split(), "--device", "opencl:0", "--strategy", "exhaustive", "--seed",
                 str(SEED), "--journal", journal, "--fleet", "local:2"])
    return {"code": code}


def bare() -> Answer:
    """Start Ray without seqtune."""
    import ray

    try:
        ray.init(address="local", num_cpus=1, include_dashboard=False)
        ray.shutdown()
    except Exception as error:
        return {"unavailable": str(error)}
    return {}


if __name__ == "__main__":
    control.BOUND = 1e9
    ray_engine.FURTHER_SECONDS = 120.0  # all members take part from the start, also on a slow machine
    fleet_run.BLOCK_MOST = BLOCK
    programs: dict[str, Callable[..., Answer]] = {
        "nodes": nodes, "stopped": stopped, "killed": killed, "finished": finished, "bare": bare}
    print(json.dumps(programs[sys.argv[1]](*sys.argv[2:])))
