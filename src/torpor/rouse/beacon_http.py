"""A beacon over HTTP, and a small server for it: the host runs the server, its guests ask.

`GET /<machine>` answers 200 with the mark, or 404. `PUT /<machine>` with `{"expected": mark or null, "new": mark}` answers
204 if it was set and 412 if the mark was another. A token, if given, is asked for in `Authorization: Bearer`.
"""

from __future__ import annotations

import hmac
import http.client
import json
import threading
import urllib.error
import urllib.request
from dataclasses import asdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from .beacon import Mark

if TYPE_CHECKING:
    from types import TracebackType

    from .beacon import Beacon

ANSWER_SECONDS = 5.0
_MOST_BYTES = 65536


class HttpBeacon:
    """Ask a beacon that is served at `url`. Every call opens a connection of its own: none outlives a wake."""

    def __init__(self, url: str, *, token: str = "", answer_seconds: float = ANSWER_SECONDS) -> None:
        """Nothing is asked yet.

        Raises:
            ValueError: `url` is not http or https.
        """
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"a beacon's url begins with http:// or https://, not {url!r}")
        self._url = url.rstrip("/")
        self._token = token
        self._answer_seconds = answer_seconds

    def read(self, machine: str) -> Mark | None:
        """See `Beacon`."""
        status, text = self._ask("GET", machine, None)
        if status == HTTPStatus.NOT_FOUND:
            return None
        return Mark.from_json(text)

    def compare_and_set(self, machine: str, expected: Mark | None, new: Mark) -> bool:
        """See `Beacon`."""
        asked = {"expected": None if expected is None else asdict(expected), "new": asdict(new)}
        status, _ = self._ask("PUT", machine, json.dumps(asked).encode())
        return status != HTTPStatus.PRECONDITION_FAILED

    def _ask(self, method: str, machine: str, body: bytes | None) -> tuple[int, str]:
        request = urllib.request.Request(f"{self._url}/{quote(machine, safe='')}", data=body, method=method)  # noqa: S310 - checked above
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with urllib.request.urlopen(request, timeout=self._answer_seconds) as answer:  # noqa: S310 - the same
                return answer.status, answer.read(_MOST_BYTES).decode()
        except urllib.error.HTTPError as refused:
            with refused:
                if refused.code in {HTTPStatus.NOT_FOUND, HTTPStatus.PRECONDITION_FAILED}:
                    return refused.code, ""
                raise OSError(f"the beacon at {self._url} answered {refused.code} {refused.reason}") from refused
        except http.client.HTTPException as broken:
            raise OSError(f"the beacon at {self._url} broke off: {broken!r}") from broken


class BeaconServer:
    """Serve a beacon: `with BeaconServer(FileBeacon(folder)) as url:`. For a host and its guests, not for the internet."""

    def __init__(self, beacon: Beacon, *, address: tuple[str, int] = ("127.0.0.1", 0), token: str = "") -> None:
        """Listen at once, answer from `start()` on. Port 0 takes a free one."""
        self._server = ThreadingHTTPServer(address, _handler(beacon, token))
        self._server.daemon_threads = True

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


def _handler(beacon: Beacon, token: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """One request."""

        timeout = ANSWER_SECONDS

        def do_GET(self) -> None:
            """Answer with the mark."""
            if self._refused():
                return
            mark = beacon.read(self._machine())
            self._answer(
                HTTPStatus.NOT_FOUND if mark is None else HTTPStatus.OK, "" if mark is None else mark.as_json()
            )

        def do_PUT(self) -> None:
            """Compare and set."""
            if self._refused():
                return
            try:
                asked = json.loads(self.rfile.read(min(int(self.headers["Content-Length"]), _MOST_BYTES)))
                expected = None if asked["expected"] is None else Mark.from_json(json.dumps(asked["expected"]))
                new = Mark.from_json(json.dumps(asked["new"]))
            except (ValueError, TypeError, KeyError):
                self._answer(HTTPStatus.BAD_REQUEST)
                return
            done = beacon.compare_and_set(self._machine(), expected, new)
            self._answer(HTTPStatus.NO_CONTENT if done else HTTPStatus.PRECONDITION_FAILED)

        def log_message(self, *_args: Any) -> None:
            """Say nothing."""

        def _machine(self) -> str:
            return unquote(self.path.lstrip("/"))

        def _refused(self) -> bool:
            said = self.headers.get("Authorization", "")
            if not token or hmac.compare_digest(said.encode(), f"Bearer {token}".encode()):
                return False
            self._answer(HTTPStatus.UNAUTHORIZED)
            return True

        def _answer(self, status: HTTPStatus, text: str = "") -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

    return Handler
