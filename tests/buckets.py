"""An object store for the tests: moto's S3 on localhost, with one bucket `blobs`."""

from __future__ import annotations

from contextlib import contextmanager
from http.client import HTTPConnection
from typing import TYPE_CHECKING

from moto.server import ThreadedMotoServer

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS = {"region": "us-east-1", "access_key_id": "key", "secret_access_key": "secret"}


@contextmanager
def s3() -> Iterator[str]:
    """Give the endpoint of a running server."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    connection = HTTPConnection(host, port)
    connection.request("PUT", "/blobs")
    assert connection.getresponse().status == 200
    connection.close()
    yield f"http://{host}:{port}"
    server.stop()


def environment(endpoint: str) -> dict[str, str]:
    """Return what tells a process where that server is, as an operator would."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        **{f"AWS_{name.upper()}": value for name, value in KEYS.items()},
    }
