"""The way to a connection to Ray: address and signals. It needs no Ray."""

from __future__ import annotations

import signal
import socket
from types import SimpleNamespace

import pytest

from seqtune.errors import MisuseError, SeqtuneError
from seqtune.tuner.fleet.engine import Member
from seqtune.tuner.fleet.on_ray import cluster as ray_cluster
from seqtune.tuner.fleet.on_ray.cluster import FleetAddress, Offer, RayCluster
from seqtune.tuner.fleet.on_ray.engine import MemberActor, RayEngine
from seqtune.tuner.stop_request import StopRequest, interrupted_by_sigterm
from tests.support.fleet.simulated import DEVICE


def test_nobody_at_an_address_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(MisuseError, match=f"nobody answers at ray://127.0.0.1:{port} "):
        FleetAddress(f"ray://127.0.0.1:{port}").check()


@pytest.mark.parametrize("prefix", ["", "ray://"])
def test_nobody_at_the_address_of_the_environment_is_one_line(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"{prefix}127.0.0.1:{listening.getsockname()[1]}"
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(MisuseError, match=f"RAY_ADDRESS: nobody answers at {address} "):
        FleetAddress("auto").check()
    for text in ("auto", "local", ""):
        monkeypatch.setenv("RAY_ADDRESS", text)
        FleetAddress("auto").check()


class FakeRay:
    """Ray as a client that connects to anything; its cluster has one node."""

    def __init__(self) -> None:
        strategies = SimpleNamespace(NodeAffinitySchedulingStrategy=lambda node, soft: node)
        self.util = SimpleNamespace(client=SimpleNamespace(ray=SimpleNamespace(is_connected=lambda: True)),
                                    scheduling_strategies=strategies)
        self.shutdown = self.init = lambda **_: None

    def is_initialized(self) -> bool:
        return False

    def nodes(self) -> list[dict[str, object]]:
        return [{"NodeID": "n", "NodeManagerHostname": "host", "Alive": True, "Resources": {"seqtune_llvm": 2.0}}]


def test_a_head_that_does_not_answer_is_waited_for_and_then_given_up() -> None:
    now = [1000.0]
    offers = [Offer("n", "host", 2, {
        "namespace": "seqtune", "num_cpus": 0, "num_gpus": 0, "max_restarts": 0, "resources": {"seqtune_llvm": 1.0},
        "scheduling_strategy": "n"})]
    with socket.create_server(("127.0.0.1", 0)) as head:
        host, port = head.getsockname()
        cluster = RayCluster(FleetAddress.parse(f"ray://{host}:{port}"), "llvm", lambda local: FakeRay(),
                             lambda: now[0])
        assert cluster.offers() == offers
        assert not cluster.is_gone
    assert cluster.offers() == []
    assert cluster.is_gone  # Ray's calls would wait
    now[0] += ray_cluster.GONE_SECONDS
    assert cluster.offers() == []  # not longer than that
    with socket.create_server((host, port)):
        assert cluster.offers() == offers
        assert not cluster.is_gone
    assert cluster.offers() == []
    now[0] += ray_cluster.GONE_SECONDS + 1
    with pytest.raises(SeqtuneError, match=rf"does not answer any more: its head at {host}:{port} has not answered"):
        cluster.offers()
    cluster.close()


class LostMethod:
    """A method of an actor whose connection is lost."""

    def remote(self, *arguments: object) -> None:
        raise Exception("Ray Client is not connected.")


def test_a_connection_that_is_lost_while_something_is_sent_is_one_line() -> None:
    engine = RayEngine.__new__(RayEngine)
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = FleetAddress.parse(f"ray://127.0.0.1:{head.getsockname()[1]}")
        engine.cluster = RayCluster(address, "llvm", lambda local: FakeRay())
    engine._events = []
    actor = SimpleNamespace(cancel=LostMethod(), close=LostMethod())
    engine._actors = {"here": MemberActor("here", "n", actor, None, Member("here", DEVICE))}
    with pytest.raises(SeqtuneError, match=r"the Ray cluster does not answer any more: .*not connected"):
        engine.cancel("here", 7)
    engine.close()


def terminate() -> None:
    signal.raise_signal(signal.SIGTERM)


def test_sigterm_before_a_run_interrupts_and_the_first_one_in_it_only_asks() -> None:
    with interrupted_by_sigterm():
        with StopRequest() as stop:
            terminate()
            assert stop.asked
            with pytest.raises(KeyboardInterrupt):
                terminate()
        with pytest.raises(KeyboardInterrupt):
            terminate()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_sigterm_asks_where_a_shell_has_ctrl_c_ignored() -> None:
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupted_by_sigterm(), StopRequest() as stop:
            signal.raise_signal(signal.SIGINT)
            assert not stop.asked
            terminate()
            assert stop.asked
            with pytest.raises(KeyboardInterrupt):
                terminate()
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, handler)
