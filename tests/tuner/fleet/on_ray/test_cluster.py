"""The way to a connection to Ray: address, token, folder and signals. It needs no Ray."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from seqtune.errors import MisuseError, SeqtuneError
from seqtune.tuner.fleet.member import Member
from seqtune.tuner.fleet.on_ray import cluster as ray_cluster
from seqtune.tuner.fleet.on_ray import importing as ray_import
from seqtune.tuner.fleet.on_ray import local_files
from seqtune.tuner.fleet.on_ray.address import FleetAddress
from seqtune.tuner.fleet.on_ray.cluster import Offer, RayCluster
from seqtune.tuner.fleet.on_ray.engine import MemberActor, RayEngine
from seqtune.tuner.fleet.on_ray.local_files import LocalFolder
from seqtune.tuner.stop_request import StopRequest, interrupted_by_sigterm
from tests.support.fleet.simulated import DEVICE

SETTINGS = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))  # what every gRPC server says first


@pytest.fixture(autouse=True)
def no_token_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)


@contextmanager
def server(words: bytes) -> Iterator[str]:
    """A server of one connection, which says these words and hangs up. Yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        def serve() -> None:
            connection, _ = listening.accept()
            connection.sendall(words)
            connection.recv(100)
            connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"ray://127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


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
    with server(b"SSH-2.0-OpenSSH_9.6\r\n") as listening_address:
        monkeypatch.setenv("RAY_ADDRESS", listening_address.removeprefix("ray://"))
        with pytest.raises(MisuseError, match="is not the port of a Ray cluster's head"):
            FleetAddress("auto").check()
    for text in ("auto", "local", ""):
        monkeypatch.setenv("RAY_ADDRESS", text)
        FleetAddress("auto").check()


@pytest.mark.parametrize("words", [b"", b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(9)])
def test_a_port_of_something_else_is_one_line(words: bytes) -> None:
    with server(words) as address, pytest.raises(MisuseError, match="is not the port of a Ray client server"):
        FleetAddress(address).check()


def test_a_server_of_grpc_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    with server(SETTINGS) as address:
        FleetAddress(address).check()
    monkeypatch.setenv("RAY_USE_TLS", "1")  # Ray itself finds out about servers that speak TLS
    with server(b"") as address:
        FleetAddress(address).check()


def test_a_missing_or_an_empty_token_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)
    with pytest.raises(MisuseError, match="no token of Ray on this machine"):
        ray_import.check_token()
    (tmp_path / "token").write_text("\n")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "token"))
    with pytest.raises(MisuseError, match="no token of Ray on this machine"):
        ray_import.check_token()
    (tmp_path / "token").write_text("0123456789abcdef")
    ray_import.check_token()
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    ray_import.check_token()


@pytest.mark.parametrize("prefix", [local_files.PREFIX, local_files.MEMBER_PREFIX])
def test_the_folder_of_a_killed_process_is_removed_by_the_next_one(prefix: str) -> None:
    first = LocalFolder(prefix)
    try:
        child = os.fork()
        if not child:  # another process, which is killed
            (LocalFolder(prefix).path / "ray").mkdir()
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        left = set(first.path.parent.glob(f"{prefix}*")) - {first.path}
        assert left
        LocalFolder(prefix).remove()
        assert all(path.exists() for path in left)  # it could belong to a process that starts just now
        LocalFolder(prefix, spared=0.0).remove()
        assert not any((path / "ray").exists() for path in left)
        assert first.path.exists()
    finally:
        first.remove()
        first.remove()
    assert not first.path.exists()


class FakeRay:
    """Ray as a client that connects to anything; its cluster has one node."""

    def __init__(self) -> None:
        self.util = SimpleNamespace(client=SimpleNamespace(ray=SimpleNamespace(is_connected=lambda: True)))
        self.shutdown = self.init = lambda **_: None

    def is_initialized(self) -> bool:
        return False

    def nodes(self) -> list[dict[str, object]]:
        return [{"NodeID": "n", "NodeManagerHostname": "host", "Alive": True, "Resources": {"seqtune_llvm": 2.0}}]


def test_a_head_that_does_not_answer_is_waited_for_and_then_given_up() -> None:
    now = [1000.0]
    offers = [Offer("n", "host", 2, (("seqtune_llvm", 1.0),))]
    with socket.create_server(("127.0.0.1", 0)) as head:
        host, port = head.getsockname()
        cluster = RayCluster(FleetAddress.parse(f"ray://{host}:{port}"), "llvm", lambda local: FakeRay(),
                             lambda address: None, lambda: now[0])
        assert cluster.offers() == offers
        assert not cluster.is_silent
    assert cluster.offers() == []
    assert cluster.is_gone
    assert cluster.is_silent  # Ray's client would wait
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
    engine.cluster = RayCluster(FleetAddress.parse("ray://127.0.0.1:1"), "llvm", lambda local: FakeRay(),
                                lambda address: None)
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
