"""Only a beacon's own word counts: what somebody else answers, or somebody slow, or a damaged file, is never a yes."""

from __future__ import annotations

import copy
import hashlib
import json
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from tests.patience import PATIENCE_SECONDS
from torpor.rouse import FileBeacon, Mark, Place
from torpor.rouse.beacon_http import BeaconServer, HttpBeacon

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MACHINE = "agent-7"
QUICK_SECONDS = 0.3
STUCK = 50
"""Bytes that a slow server has, one every tenth of a second."""
DAMAGED = {
    "empty": b"",
    "half": b'{"lineage": "1-a", "cou',
    "null": b"null",
    "infinite": b'{"lineage": "a", "counter": Infinity, "began": 1, "trail": []}',
    "no counter": b'{"lineage": "a", "counter": NaN, "began": 1, "trail": []}',
    "short step": b'{"lineage": "a", "counter": 0, "began": 1, "trail": [["x"]]}',
    "deep": b"[" * 3000,
    "no text": b"\xff",
}


@contextmanager
def web_server(status: int, body: bytes = b"") -> Iterator[str]:
    """Somebody else, who answers each request so."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer."""
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(0 if status in {204, 304} else len(body)))
            self.end_headers()
            self.wfile.write(b"" if status in {204, 304} else body)

        do_PUT = do_GET  # noqa: N815 - as the server calls it

        def log_message(self, *_args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/wrong"
        finally:
            server.shutdown()


@pytest.mark.parametrize("status", [200, 201, 202, 204, 301, 302, 307, 404, 412, 500])
def test_another_web_server_is_no_beacon(status: int) -> None:
    """A wrong address: whatever it answers, no copy may go on, and no process takes over."""
    with web_server(status) as url:
        beacon = HttpBeacon(url)
        with pytest.raises(OSError, match=f"{status}"):
            beacon.compare_and_set(MACHINE, None, Mark("1-a"))
        with pytest.raises(OSError, match=f"{status}"):
            beacon.read(MACHINE)
        place = Place(beacon, MACHINE)
        with pytest.raises(OSError, match=f"{status}"):
            place.take_over()
        place.mark = Mark("1-a")
        for one in (place, copy.copy(place)):
            with pytest.raises(OSError, match=f"{status}"):
                one.ask()


def test_a_page_that_looks_like_a_mark_is_none() -> None:
    """A cache or a file server may hold an old one."""
    with web_server(200, Mark("1-a").as_json().encode()) as url, pytest.raises(OSError, match="no beacon"):
        HttpBeacon(url).read(MACHINE)


@contextmanager
def slow_server(head: bytes) -> Iterator[tuple[str, list[bool]]]:
    """One that sends `head` and then a byte every tenth of a second; and whether its peer hung up on it."""
    hung_up: list[bool] = []
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            peer, _ = listening.accept()
            with peer:
                try:
                    peer.recv(65536)
                    peer.sendall(head)
                    for _ in range(STUCK):
                        if over.wait(0.1):
                            return
                        peer.sendall(b" ")
                except OSError:
                    hung_up.append(True)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", hung_up
        thread.join(PATIENCE_SECONDS)


@pytest.mark.slow
@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n", b"HTTP/1.1 200 OK\r\nA:"])
def test_a_server_that_is_never_done_is_not_waited_for(head: bytes) -> None:
    """The limit is for the whole answer, not for each byte of it; and the connection is let go."""
    with slow_server(head) as (url, hung_up), pytest.raises(OSError, match=r"0\.3 s|timed out"):
        HttpBeacon(url, answer_seconds=QUICK_SECONDS).read(MACHINE)
    assert hung_up == [True]


def test_half_an_answer_is_none() -> None:
    """The mark is longer than what came: the connection broke, the mark is not damaged."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            peer, _ = listening.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(b'HTTP/1.1 200 OK\r\nRouse-Beacon: 1\r\nContent-Length: 50\r\n\r\n{"lineage": ')

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with pytest.raises(OSError, match="broke off"):
            HttpBeacon(f"http://127.0.0.1:{listening.getsockname()[1]}").read(MACHINE)
        thread.join(PATIENCE_SECONDS)


@pytest.mark.parametrize("token", ["snow ☃", "a\nb", "a\r\nHost: b", " a", "a ", "\x7f"])
def test_a_token_that_no_header_can_carry_is_refused_at_once(tmp_path: Path, token: str) -> None:
    """Not at the first rousal."""
    with pytest.raises(ValueError, match="token"):
        HttpBeacon("http://127.0.0.1:1", token=token)
    with pytest.raises(ValueError, match="token"):
        BeaconServer(FileBeacon(tmp_path), token=token)


@pytest.mark.parametrize("token", ["tökén", "two words"])
def test_an_odd_token_that_a_header_can_carry_is_good(tmp_path: Path, token: str) -> None:
    """Latin letters, and spaces inside."""
    with BeaconServer(FileBeacon(tmp_path), token=token) as url:
        Place(HttpBeacon(url, token=token), MACHINE).take_over()
        with pytest.raises(OSError, match="401"):
            HttpBeacon(url, token=f"{token}!").read(MACHINE)


@pytest.mark.parametrize("url", ["http://", "http://[", "http://host:port/", "https:///path"])
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    """As a scheme that is none."""
    with pytest.raises(ValueError, match=r"."):
        HttpBeacon(url)


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_mark_is_no_state_to_go_on_from(tmp_path: Path, damage: str) -> None:
    """A ValueError that names the file and what a person does about it; over HTTP the beacon does not answer."""
    beacon = FileBeacon(tmp_path)
    place = Place(beacon, MACHINE)
    place.take_over()
    (kept,) = tmp_path.glob("*.json")
    kept.write_bytes(DAMAGED[damage])
    for asking in (place.ask, place.beat, Place(beacon, MACHINE).take_over):
        with pytest.raises(ValueError, match=rf"(?s){kept.name}.*hint: ") as raised:
            asking()
        assert type(raised.value) is ValueError
    with BeaconServer(beacon) as url, pytest.raises(OSError, match="500"):
        Place(HttpBeacon(url), MACHINE).take_over()
    kept.unlink()
    Place(beacon, MACHINE).take_over()
    assert not place.ask().current


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_question_that_is_none_is_refused(tmp_path: Path, damage: str) -> None:
    """By the server, which goes on."""
    with BeaconServer(FileBeacon(tmp_path)) as url:
        host, _, port = url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), PATIENCE_SECONDS) as asking:
            body = b'{"expected": null, "new": %s}' % DAMAGED[damage]
            asking.sendall(b"PUT /a HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            assert b" 400 " in asking.recv(65536)
        assert HttpBeacon(url).read("a") is None


@pytest.mark.parametrize("length", [41, 42, 50, 4000])
def test_a_long_name_has_a_file_of_its_own(tmp_path: Path, length: int) -> None:
    """A file's name has at most 255 bytes; two long names that begin alike are two machines."""
    beacon, names = FileBeacon(tmp_path), ["ü" * length + end for end in "ab"]
    for name in names:
        place = Place(beacon, name)
        place.take_over()
        place.beat()
    marks = [beacon.read(name) for name in names]
    assert [mark and mark.counter for mark in marks] == [1, 1]
    assert marks[0] != marks[1]
    lines = [json.loads(path.read_text())["lineage"] for path in tmp_path.glob("*.json")]
    assert len(lines) == 2


def test_no_name_is_taken_for_a_long_one(tmp_path: Path) -> None:
    """Whoever is called as the file of another is called."""
    beacon = FileBeacon(tmp_path)
    long = "x" * 300
    Place(beacon, long).take_over()
    (path,) = tmp_path.glob("*.json")
    assert hashlib.sha256(long.encode()).hexdigest() in path.name
    assert beacon.read(path.stem) is None
