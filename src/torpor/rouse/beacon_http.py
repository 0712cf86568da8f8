"""A beacon over HTTP, and a small server for it: the host runs the server, its guests ask.

`GET /<machine>` answers 200 with the mark, or 404. `PUT /<machine>` with `{"expected": mark or null, "new": mark}` answers
204 if it was set and 412 if the mark was another. Each of the four carries the header `Rouse-Beacon: 1`: without it they are
somebody else's, say of a web server at a wrong address, and as little a "yes" as any other answer. A token, if given, is
asked for in `Authorization: Bearer`.

Whoever asks does so at the address itself: no redirect is followed and no proxy asked, so that nobody else gets the token.
"""

from __future__ import annotations

import hmac
import http.client
import json
import logging
import queue
import socket
import threading
from contextlib import suppress
from dataclasses import asdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from .beacon import Mark

if TYPE_CHECKING:
    from collections.abc import Collection
    from types import TracebackType
    from urllib.parse import SplitResult

    from .beacon import Beacon

log = logging.getLogger(__name__)

ANSWER_SECONDS = 5.0
BEACON_HEADER = "Rouse-Beacon"
_MOST_BYTES = 65536


class HttpBeacon:
    """Ask a beacon that is served at `url`. Every call opens a connection of its own: none outlives a wake."""

    def __init__(self, url: str, *, token: str = "", answer_seconds: float = ANSWER_SECONDS) -> None:
        """Nothing is asked yet. Each call ends within `answer_seconds`, however slowly an answer comes.

        Raises:
            ValueError: `url` is not http or https, or no header can carry `token`.
        """
        place = urlsplit(url)
        if place.scheme not in {"http", "https"} or not place.hostname:
            raise ValueError(f"a beacon's url begins with http:// or https:// and a host, not {url!r}")
        _ = place.port  # raises for one that is no number
        self._url = url.rstrip("/")
        self._place = place
        self._headers = {"Authorization": f"Bearer {_carried(token)}"} if token else {}
        self._answer_seconds = answer_seconds

    def read(self, machine: str) -> Mark | None:
        """See `Beacon`."""
        status, text = self._ask("GET", machine, None, {HTTPStatus.OK, HTTPStatus.NOT_FOUND})
        return Mark.from_json(text) if status == HTTPStatus.OK else None

    def compare_and_set(self, machine: str, expected: Mark | None, new: Mark) -> bool:
        """See `Beacon`."""
        asked = {"expected": None if expected is None else asdict(expected), "new": asdict(new)}
        answers = {HTTPStatus.NO_CONTENT, HTTPStatus.PRECONDITION_FAILED}
        status, _ = self._ask("PUT", machine, json.dumps(asked).encode(), answers)
        return status == HTTPStatus.NO_CONTENT

    def _ask(self, method: str, machine: str, body: bytes | None, answers: Collection[int]) -> tuple[int, str]:
        path = f"{self._place.path.rstrip('/')}/{quote(machine, safe='')}"
        exchange = _Exchange(self._place, self._answer_seconds)
        try:
            status, is_beacon, said = exchange.run(method, path, body, self._headers)
        except TimeoutError as error:
            raise TimeoutError(f"the beacon at {self._url} did not answer in {self._answer_seconds:g} s") from error
        except Exception as error:  # a host's name that is none is a ValueError, say
            raise OSError(f"the beacon at {self._url} does not answer: {error!r}") from error
        if status not in answers:
            raise OSError(f"the beacon at {self._url} answered {status} {http.client.responses.get(status, '')}")
        if not is_beacon:
            raise OSError(f"there is no beacon at {self._url}: {status} without the header {BEACON_HEADER}")
        return status, said.decode("utf-8", "backslashreplace")


class _Exchange:
    """One question and its answer, in a thread of its own: whoever asks waits so long and no longer, for a name too.

    A socket's own limit is for each operation, and a server that sends a byte now and then never meets it.
    """

    def __init__(self, place: SplitResult, seconds: float) -> None:
        secure = place.scheme == "https"
        make = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        port = place.port or (443 if secure else 80)  # given, or it would look for one in an IPv6 address
        self._connection = make(str(place.hostname), port, timeout=seconds)
        self._seconds = seconds
        self._socket: socket.socket | None = None
        self._over = False
        self._came: queue.SimpleQueue[tuple[int, bool, bytes] | Exception] = queue.SimpleQueue()

    def run(self, *question: Any) -> tuple[int, bool, bytes]:
        """Return the status, whether a beacon said so, and what it said. Raises TimeoutError, or what went wrong."""
        threading.Thread(target=self._work, args=question, name="rouse-beacon-asks", daemon=True).start()
        try:
            came = self._came.get(timeout=self._seconds)
        except queue.Empty:
            self._over = True
            self._cut()
            raise TimeoutError from None
        if isinstance(came, Exception):
            raise came
        return came

    def _work(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> None:
        try:
            self._came.put(self._answer(method, path, body, headers))
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            self._came.put(error)
        finally:
            self._connection.close()

    def _answer(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, bool, bytes]:
        self._connection.connect()
        self._socket = self._connection.sock
        if self._over:  # whoever asked has gone, maybe before there was a socket to cut
            self._cut()
        self._connection.request(method, path, body, headers)
        with self._connection.getresponse() as answer:
            said = answer.read(_MOST_BYTES)
            if answer.length:
                raise OSError(f"it broke off, {answer.length} bytes before the end")
            return answer.status, answer.headers.get(BEACON_HEADER) == "1", said

    def _cut(self) -> None:
        """End a read that nobody waits for. Below TLS, which would have its own say first."""
        if self._socket is not None:
            with suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


class BeaconServer:
    """Serve a beacon: `with BeaconServer(FileBeacon(folder)) as url:`. For a host and its guests, not for the internet."""

    def __init__(self, beacon: Beacon, *, address: tuple[str, int] = ("127.0.0.1", 0), token: str = "") -> None:
        """Listen at once, answer inside the `with` block. Port 0 takes a free one.

        Raises:
            ValueError: no header can carry `token`.
            OSError: nobody may listen there.
        """
        self._server = _Server(address, beacon, _carried(token))

    @property
    def url(self) -> str:
        """Where it is."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def __enter__(self) -> str:
        """Serve in a thread; where."""
        threading.Thread(target=self._server.serve_forever, args=(0.05,), name="rouse-beacon", daemon=True).start()
        return self.url

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    """What each request needs."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], beacon: Beacon, token: str) -> None:
        super().__init__(address, _Handler)
        self.beacon = beacon
        self.token = token


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: _Server

    timeout = ANSWER_SECONDS

    def do_GET(self) -> None:
        """Answer with the mark."""
        if self._refused():
            return
        try:
            mark = self.server.beacon.read(self._machine())
        except (OSError, ValueError) as error:
            self._fail(error)
            return
        self._answer(HTTPStatus.NOT_FOUND if mark is None else HTTPStatus.OK, "" if mark is None else mark.as_json())

    def do_PUT(self) -> None:
        """Compare and set."""
        if self._refused():
            return
        try:
            asked = json.loads(self.rfile.read(max(0, min(int(self.headers["Content-Length"]), _MOST_BYTES))))
            expected = None if asked["expected"] is None else Mark.from_json(json.dumps(asked["expected"]))
            new = Mark.from_json(json.dumps(asked["new"]))
        except (ValueError, TypeError, KeyError, RecursionError):
            self._answer(HTTPStatus.BAD_REQUEST)
            return
        try:
            done = self.server.beacon.compare_and_set(self._machine(), expected, new)
        except (OSError, ValueError) as error:
            self._fail(error)
            return
        self._answer(HTTPStatus.NO_CONTENT if done else HTTPStatus.PRECONDITION_FAILED)

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""

    def _machine(self) -> str:
        return unquote(self.path.lstrip("/"))

    def _refused(self) -> bool:
        said = self.headers.get("Authorization", "")
        token = self.server.token
        if not token or hmac.compare_digest(said.encode(), f"Bearer {token}".encode()):
            return False
        self._answer(HTTPStatus.UNAUTHORIZED)
        return True

    def _fail(self, error: Exception) -> None:
        log.error("the beacon cannot answer for machine %r: %s", self._machine(), error)
        self._answer(HTTPStatus.INTERNAL_SERVER_ERROR)

    def _answer(self, status: HTTPStatus, text: str = "") -> None:
        self.send_response(status)
        self.send_header(BEACON_HEADER, "1")
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())


def _carried(token: str) -> str:
    """Return a token that a header can carry, and that comes out of it as it went in.

    Raises:
        ValueError: it is another one.
    """
    latin = token.encode("latin-1", "replace").decode("latin-1")  # what a header is written in
    if latin != token or token != token.strip() or not token.isprintable():
        raise ValueError("a beacon's token is printable Latin-1, without spaces around it: no header carries another")
    return token
