"""HTTP clients: httpx (httpcore), aiohttp, urllib3, requests, boto3."""

from __future__ import annotations

import importlib
import ssl
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.rouse.adapters import peers, trials
from tests.rouse.adapters.wires import Wire

trusted: list[Path] = []
"""The certificate of the server, if it speaks TLS."""


def url(port: int) -> str:
    """The server behind the wire."""
    return f"http{'s' if trusted else ''}://127.0.0.1:{port}/"


def trust() -> ssl.SSLContext:
    """For those who are made for both."""
    return ssl.create_default_context(cafile=str(trusted[0]) if trusted else None)


class Httpx(trials.Client):
    """httpx or httpx2 on httpcore."""

    def __init__(self, library: str, port: int) -> None:
        """One client, one pool."""
        self.client: Any = importlib.import_module(library).Client(trust_env=False, verify=trust())
        self.url = url(port)

    def use(self, seconds: float = PATIENCE_SECONDS) -> object:
        """GET."""
        return self.client.get(self.url, timeout=seconds).text

    def close(self) -> None:
        """Close the pool."""
        self.client.close()


class AsyncHttpx(trials.AsyncClient):
    """The same in a loop."""

    def __init__(self, library: str, port: int) -> None:
        """One client, one pool."""
        super().__init__()
        self.client: Any = importlib.import_module(library).AsyncClient(trust_env=False, verify=trust())
        self.url = url(port)

    async def use_async(self, seconds: float) -> object:
        """GET."""
        return (await self.client.get(self.url, timeout=seconds)).text

    def close(self) -> None:
        """Close the pool."""
        self.run(self.client.aclose())


class Aiohttp(trials.AsyncClient):
    """aiohttp's client."""

    def __init__(self, port: int) -> None:
        """Its `ClientSession` must be made in a loop."""
        super().__init__()
        self.url = url(port)
        aiohttp: Any = importlib.import_module("aiohttp")

        async def make() -> Any:
            return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust()))

        self.client = self.run(make())

    async def use_async(self, _seconds: float) -> object:
        """GET."""
        async with self.client.get(self.url) as response:
            return await response.text()

    def close(self) -> None:
        """Close the connector."""
        self.run(self.client.close())


class Urllib3(trials.Client):
    """urllib3 alone."""

    def __init__(self, port: int) -> None:
        """One pool."""
        self.pool: Any = importlib.import_module("urllib3").PoolManager(retries=False, ssl_context=trust())
        self.url = url(port)

    def use(self, seconds: float = PATIENCE_SECONDS) -> object:
        """GET."""
        return self.pool.request("GET", self.url, timeout=seconds).data.decode()

    def close(self) -> None:
        """Close the connections."""
        self.pool.clear()


class Requests(trials.Client):
    """requests on urllib3."""

    def __init__(self, port: int) -> None:
        """One `Session`."""
        self.client: Any = importlib.import_module("requests").Session()
        self.client.trust_env = False
        self.url = url(port)

    def use(self, seconds: float = PATIENCE_SECONDS) -> object:
        """GET."""
        return self.client.get(self.url, timeout=seconds).text

    def close(self) -> None:
        """Close the connections."""
        self.client.close()


class Boto3(trials.Client):
    """boto3's S3, for which any server is a store that has `ok` in every object."""

    def __init__(self, port: int) -> None:
        """Whole patience and no second try; the trial that must fail soon changes the timeout below."""
        config = importlib.import_module("botocore.config").Config(
            retries={"total_max_attempts": 1}, read_timeout=PATIENCE_SECONDS, proxies={}
        )
        self.client: Any = importlib.import_module("boto3").client(
            "s3", endpoint_url=f"http://127.0.0.1:{port}", aws_access_key_id="a", aws_secret_access_key="b",  # noqa: S106
            region_name="us-east-1", config=config,
        )  # fmt: skip

    def use(self, seconds: float = PATIENCE_SECONDS) -> object:
        """GET an object."""
        self.client._endpoint.http_session._timeout = seconds  # noqa: SLF001 - botocore has one timeout per client
        for pool in self._pools():
            pool.timeout = importlib.import_module("urllib3").Timeout(seconds)
        return self.client.get_object(Bucket="a", Key="b")["Body"].read().decode()

    def _pools(self) -> list[Any]:
        pools = self.client._endpoint.http_session._manager.pools  # noqa: SLF001 - as above
        return [pools[key] for key in pools.keys()]  # noqa: SIM118 - urllib3's container has no iterator

    def close(self) -> None:
        """Close the connections."""
        self.client.close()


MAKERS = {
    "httpx": lambda port: Httpx("httpx", port),
    "httpx2-async": lambda port: AsyncHttpx("httpx2", port),
    "aiohttp": Aiohttp,
    "urllib3": Urllib3,
    "requests": Requests,
    "boto3": Boto3,
}


BROKEN_RECORD = ("bad record mac", "RECORD_LAYER_FAILURE")
"""As OpenSSL 3.0 says it, and as 3.6 does."""
TLS = " over TLS"
CASES = [*MAKERS, *(each + TLS for each in ("httpx", "aiohttp"))]


def trial(library: str) -> trials.Report:
    """Runs in a process of its own."""
    library, over_tls, _ = library.partition(TLS)
    with tempfile.TemporaryDirectory() as folder:
        if over_tls:
            trusted.append(peers.certificate(Path(folder)))
        with peers.http_peer(trusted[0] if trusted else None) as port, Wire(port) as wire:
            return trials.both(MAKERS[library], wire)


def check_sleep(library: str, told: trials.Report) -> None:
    """The peer is gone and did not say so: without the adapter the client waits for it, with it opens a new connection."""
    assert "imeout" in told["bare"], told
    assert (told["cured"], told["spoke_on_old"]) == ("ok", False), told
    assert told["in_flight"] != "hung"
    assert ("ok" in told["in_flight"]) == library.startswith("aiohttp"), told  # it sends a GET again by itself
    assert (told["afterwards"], told["spoke_on_old_in_flight"]) == ("ok", False), told


def check_copy(library: str, told: trials.Report) -> None:
    """Without the adapter the copy speaks on our connection, which breaks ours where it is encrypted (each record is counted).

    With it the copy opens its own and ours is not touched.
    """
    assert told["bare_spoke_on_ours"], told
    if TLS in library and not library.startswith("aiohttp"):  # it sends a GET again by itself
        assert any(words in told["ours_after_bare"] for words in BROKEN_RECORD), told
    assert (told["cured"], told["cured_spoke_on_ours"], told["cured_opened"]) == ("ok", False, True), told
    assert (told["ours_hung_up"], told["ours_still_works"], told["ours_reopened"]) == (False, "ok", 0), told


@pytest.mark.slow
@pytest.mark.parametrize("library", CASES)
def test_a_sleep_and_a_copy(library: str) -> None:
    """The fault without the adapter, and the cure."""
    told = trials.report("test_http", library)
    check_sleep(library, told["slept"])
    check_copy(library, told["copied"])
