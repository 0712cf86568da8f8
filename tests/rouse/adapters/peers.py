"""Real servers in threads: HTTP by the standard library, and enough of Redis."""

from __future__ import annotations

import datetime as dt
import http.server
import ipaddress
import socketserver
import ssl
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class _Http(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer, and keep the connection."""
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Redis(socketserver.StreamRequestHandler):
    ANSWERS = {b"PING": b"+PONG\r\n", b"GET": b"$2\r\nok\r\n"}  # noqa: RUF012 - never changed

    def setup(self) -> None:
        """Read arrays of bulk strings until the client is gone."""
        super().setup()
        while head := self.rfile.readline():
            words = []
            for _ in range(int(head[1:])):
                size = int(self.rfile.readline()[1:])
                words.append(self.rfile.read(size + 2)[:-2])
            self.wfile.write(self.ANSWERS.get(words[0].upper(), b"-ERR unknown command\r\n"))


class _Threads(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, *_: object) -> None:
        """A client that is gone is what these tests are about."""


class _Tls(_Threads):
    """Shakes hands in the connection's own thread."""

    context: ssl.SSLContext

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Speak TLS on it."""
        with self.context.wrap_socket(request, server_side=True) as inside:
            super().finish_request(inside, client_address)


def certificate(folder: Path) -> Path:
    """A file with a key and its certificate for 127.0.0.1, which certifies itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "peer")])
    began = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certified = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(began)
        .not_valid_after(began + dt.timedelta(days=30))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, none = serialization.Encoding.PEM, serialization.NoEncryption()
    file = folder / "peer.pem"
    file.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, none) + certified.public_bytes(pem))
    return file


@contextmanager
def _serving(kind: type[socketserver.BaseRequestHandler], pem: Path | None = None) -> Iterator[int]:
    with (_Tls if pem else _Threads)(("127.0.0.1", 0), kind) as server:
        if isinstance(server, _Tls):
            server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            server.context.load_cert_chain(str(pem))
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield int(server.server_address[1])
        server.shutdown()


@contextmanager
def http_peer(pem: Path | None = None) -> Iterator[int]:
    """A port that answers `GET` with `ok` and keeps its connections; over TLS with a `certificate`."""
    with _serving(_Http, pem) as port:
        yield port


@contextmanager
def redis_peer() -> Iterator[int]:
    """A port that speaks enough of Redis for `GET`."""
    with _serving(_Redis) as port:
        yield port
