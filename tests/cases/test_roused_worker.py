"""A worker process that was away: its author's callbacks run in it, fail in it, and what it is connected to is left behind.

Real processes: the host's word comes to a socket, and a process is stopped with SIGSTOP for longer than its limits.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from tests.patience import PATIENCE_SECONDS
from torpor import rouse
from torpor.client.beacon import StoreBeacon

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cases.world import Member, World


@pytest.fixture
def host_says(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return what says something to the workers that were started since."""
    path = tmp_path / "host"
    monkeypatch.setenv("ROUSE_HOST_SOCKET", str(path))

    def say(**words: Any) -> None:
        world.until(path.is_socket, "somebody listens")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as speaking:
            speaking.sendto(json.dumps(words).encode(), str(path))

    return say


def working(world: World, **options: Any) -> tuple[Member, int]:
    """Return a worker in the middle of a step, and the run."""
    world.outside.hold("look")
    worker = world.worker("roused", **options)
    run = world.start("works")
    world.outside.next("look")
    return worker, run


@pytest.mark.slow
def test_the_host_is_heard_and_everything_goes_on(world: World, host_says: Callable[..., None]) -> None:
    """Told once, at once, of what kind it was; the step that was under way counts under the lease that it had."""
    _, run = working(world)
    host_says(event="generation 2", kind="copied", away_seconds=7200)
    assert world.outside.next("roused").said["kind"] == "copied"
    world.outside.free("look")
    world.result(run)
    assert {line.epoch for line in world.journal(run)} == {1}
    host_says(event="generation 2", kind="copied", away_seconds=7200)
    host_says(event="generation 3", kind="slept", away_seconds=60)
    assert world.outside.next("roused", 2).said["kind"] == "slept"
    assert len(world.outside.all("act")) == 1


@pytest.mark.slow
def test_a_callback_that_fails_for_a_while(world: World, host_says: Callable[..., None]) -> None:
    """Nothing is committed and nothing done meanwhile; when it succeeds the worker goes on by itself."""
    worker, run = working(world)
    world.outside.hold("roused")
    host_says(event="2", kind="copied")
    world.outside.next("roused").answer("ask again later")
    world.outside.free("look")
    for number in (2, 3):
        again = world.outside.next("roused", number)
        assert [line.kind for line in world.journal(run)] == []
        again.answer("ask again later")
    world.outside.free("roused")
    world.result(run)
    assert {line.epoch for line in world.journal(run)} == {1}
    assert len(world.outside.all("act")) == 1
    assert " shut   why=" in worker.log
    assert "callback may_go_on failed in AUTHORITY" in worker.log
    assert " open again   " in worker.log


def another_acts(world: World, run: int) -> None:
    """Nobody has acted; let another worker go on in a sound process: it acts, once."""
    assert world.outside.all("act") == []
    world.outside.free("look", "roused")
    world.worker("roused", name="w1")
    world.result(run)
    assert len(world.outside.all("act")) == 1


@pytest.mark.slow
def test_a_callback_that_fails_for_good(
    world: World, host_says: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker ends and says of what; another one has the run long before the lease would have ended (G2, G13)."""
    monkeypatch.setenv("TORPOR_SHUT_SECONDS", "2")
    worker, run = working(world, lease_seconds=3600.0)
    world.outside.free("roused", value="you are not the one")
    host_says(event="2", kind="copied")
    assert worker.process.wait(PATIENCE_SECONDS) not in {0, None}
    assert re.search(r"its gate was shut for \d\.\d s: callback may_go_on failed in AUTHORITY", worker.log)
    assert "you are not the one" in worker.log
    another_acts(world, run)


@pytest.mark.slow
def test_a_callback_that_never_returns(
    world: World, host_says: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks somebody who is silent: the process ends all the same, names it, and another one has the run (G2, G13)."""
    monkeypatch.setenv("TORPOR_SHUT_SECONDS", "2")
    worker, run = working(world, lease_seconds=3600.0)
    world.outside.hold("roused")
    host_says(event="2", kind="copied")
    world.outside.next("roused")
    assert worker.process.wait(PATIENCE_SECONDS) not in {0, None}
    assert re.search(r"its gate was shut for \d\.\d s: callback may_go_on in AUTHORITY has not returned", worker.log)
    another_acts(world, run)


@pytest.mark.slow
def test_a_worker_in_whose_callback_nothing_returns_is_told_to_stop(
    world: World, host_says: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGTERM ends it long before its time is over."""
    monkeypatch.setenv("TORPOR_SHUT_SECONDS", "3600")
    worker, _ = working(world)
    world.outside.hold("roused")
    host_says(event="2", kind="copied")
    world.outside.next("roused")
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(PATIENCE_SECONDS) not in {0, None}
    assert "callback may_go_on in AUTHORITY has not returned" in worker.log


@pytest.mark.slow
@pytest.mark.parametrize("hangs", [True, False], ids=["hangs", "fails"])
def test_a_worker_that_acts_is_told_to_stop(world: World, host_says: Callable[..., None], *, hangs: bool) -> None:
    """SIGTERM in a callback, or between two that fail: the effect ends, is recorded, and nobody is asked about it (G4)."""
    world.outside.hold("act", "roused")
    worker = world.worker("roused", lease_seconds=3600.0)
    run = world.start("works")
    world.outside.next("act")
    host_says(event="2", kind="copied")
    callback = world.outside.next("roused")
    if not hangs:
        callback.answer("ask again later")
        world.outside.next("roused", 2)
    worker.process.send_signal(signal.SIGTERM)
    world.until(lambda: "to end and for the gate, which is shut, to open; Ctrl-C leaves" in worker.log, "it waits")
    world.outside.free("act")
    world.until(lambda: "this worker is asked to stop, and ends in" in worker.log, "it said why")
    world.outside.free("roused")
    assert worker.process.wait(PATIENCE_SECONDS) == 0, worker.log
    assert [line.kind for line in world.journal(run)].count("outcome") == 2  # of the look and of the effect
    world.worker("roused", name="w1")
    world.result(run)
    assert len(world.outside.all("act")) == 1


@pytest.mark.slow
@pytest.mark.parametrize("first", ["this one", "the other one"])
def test_of_two_copies_the_beacon_lets_one_go_on(
    world: World, host_says: Callable[..., None], monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """Whoever asked first acts; the other ends without having written a byte, and says that another copy went on (C01, G2)."""
    monkeypatch.setenv("TORPOR_SHUT_SECONDS", "2")
    monkeypatch.setenv("BEACON", world.url)
    world.outside.hold("look")
    worker = world.worker("placed", lease_seconds=3600.0)
    run = world.start("works")
    world.outside.next("look")
    beacon = StoreBeacon(world.store)
    copy = rouse.Place(beacon, "placed")
    copy.mark = beacon.read("placed")  # what a copy of the machine has in its memory
    if first == "the other one":
        assert copy.ask().current
    host_says(event="2", kind="copied")
    if first == "this one":
        world.until(lambda: beacon.read("placed") != copy.mark, "the worker asked")
        assert not copy.ask().current
        world.outside.free("look")
        world.result(run)
        assert len(world.outside.all("act")) == 1
        assert worker.process.poll() is None
    else:
        assert worker.process.wait(PATIENCE_SECONDS) not in {0, None}
        assert "this memory is not the current one" in worker.log
        assert "another copy woke where we did" in worker.log
        assert world.journal(run) == []
        assert world.outside.all("act") == []


class _Ports(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Say from which port it is asked."""
        body = str(self.client_address[1]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of its parent
        """Say nothing."""


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Serve a page that keeps connections open."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Ports)
    server.daemon_threads = True
    monkeypatch.setenv("PAGE", f"http://127.0.0.1:{server.server_port}/")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow
@pytest.mark.usefixtures("page")
def test_connections_of_another_life_are_left(world: World) -> None:
    """An author's client keeps its connection from run to run, until the process was stopped: then it opens a new one."""
    worker = world.worker("roused")
    first, second = (world.result(world.start("asks")) for _ in range(2))
    assert first == second
    os.kill(worker.pid, signal.SIGSTOP)
    threading.Event().wait(3.5)  # a tick and the limit of a freeze: time is what this is about
    os.kill(worker.pid, signal.SIGCONT)
    assert world.outside.next("roused").said["kind"] == "frozen"
    third, fourth = (world.result(world.start("asks")) for _ in range(2))
    assert third == fourth
    assert third != first
