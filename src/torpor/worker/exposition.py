"""Metrics over HTTP, in Prometheus' text format (version 0.0.4): `GET /metrics`, and nothing else.

Written here because it is thirty lines, and a client library would keep a registry of its own for the whole process. What the
store is asked is read at most once in READ_SECONDS, however often somebody scrapes; what this process counts is as new as
the scrape.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from torpor import clock
from torpor.engine.queries.numbers import Numbers, numbers
from torpor.errors import StoreError, UsageError
from torpor.store.protocol import Lane
from torpor.worker.measured import BOUNDS_SECONDS, Histogram

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    from torpor.store.protocol import Store
    from torpor.worker.measured import Counters
    from torpor.worker.standing import Standing
    from torpor.worker.worker import Worker

READ_SECONDS = 5.0
REQUEST_SECONDS = 10.0
"""A scraper that says nothing for so long is let go."""
_REQUEST_BYTES = 8192


def _one(name: str, kind: str, about: str, value: float) -> Iterator[str]:
    yield from _many(name, kind, about, {"": value})


def _many(name: str, kind: str, about: str, values: Mapping[str, float]) -> Iterator[str]:
    yield f"# HELP torpor_{name} {about}"
    yield f"# TYPE torpor_{name} {kind}"
    for labels, value in values.items():
        yield f"torpor_{name}{labels} {value!r}"


def label(name: str, value: str) -> str:
    """Return one label, escaped as the format wants it."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{{{name}="{escaped}"}}'


def _histogram(name: str, about: str, found: Histogram) -> Iterator[str]:
    yield f"# HELP torpor_{name} {about}"
    yield f"# TYPE torpor_{name} histogram"
    total = 0
    for bound, count in zip((*BOUNDS_SECONDS, None), found.counts, strict=True):
        total += count
        yield f"torpor_{name}_bucket{label('le', '+Inf' if bound is None else f'{bound:g}')} {total}"
    yield f"torpor_{name}_sum {found.seconds:.9g}"
    yield f"torpor_{name}_count {total}"


def text(
    counters: Counters, running: int, found: Numbers | None, wal_bytes: int | None, standing: Standing | None = None
) -> str:
    """Return the page; without what the store says if it cannot be asked now."""
    shut, rousals = (0, 0) if standing is None else (int(bool(standing.shut)), standing.rousals)
    lines = [
        *_one("up_to_date", "gauge", "1 if the store could be asked.", int(found is not None)),
        *_one("worker_runs", "gauge", "Runs that this worker drives.", running),
        *_one("worker_shut", "gauge", "1 while it may not act: a callback failed after a rousal, or a snapshot.", shut),
        *_one("rousals_total", "counter", "Times that this process slept, was frozen or copied.", rousals),
        *_one("claimed_runs_total", "counter", "Runs claimed by this worker.", counters.claimed),
        *_one("commits_total", "counter", "Commits sent by this worker.", counters.commits),
        *_one("outcomes_total", "counter", "Outcomes of steps and effects recorded by this worker.", counters.outcomes),
        *_one("refused_commits_total", "counter", "Commits of this worker that were fenced.", counters.refused),
        *_one(
            "takeovers_total", "counter", "Runs that the waker of this process took from others.", counters.takeovers
        ),
        *_histogram("claim_seconds", "How long a claim took.", counters.claim_seconds),
        *_histogram("commit_seconds", "How long a batch of commits took.", counters.commit_seconds),
    ]
    if wal_bytes is not None:
        lines += _one("sqlite_wal_bytes", "gauge", "The write-ahead log's size.", wal_bytes)
    if found is not None:
        states = {label("state", state): count for state, count in found.runs.items()}
        programs = {label("program", name): count for name, count in sorted(found.ready_of.items())}
        lines += [
            *_many("runs", "gauge", "Runs of the store by state, counted to 10000.", states),
            *_many("ready_runs", "gauge", "The newest 200 ready runs by program.", programs),
            *_one("oldest_ready_seconds", "gauge", "How long the oldest of them is ready.", found.oldest_ready_seconds),
            *_one("people_waits", "gauge", "Open waits that need a person, counted to 200.", found.people),
            *_one("waker_late_seconds", "gauge", "How long the next timer is due already.", found.late_seconds),
            *_one("outbox_messages", "gauge", "Messages not delivered yet, counted to 10000.", found.outbox),
            *_one("follow_ups", "gauge", "Ends that others must still learn of, counted to 10000.", found.follow_ups),
            *_one("workers", "gauge", "Workers that the store knows.", found.workers),
        ]
    return "\n".join(lines) + "\n"


class Exposition:
    """Answers scrapers while it is open."""

    def __init__(self, store: Store, worker: Worker, counters: Counters, *, host: str, port: int) -> None:
        """Open nothing yet. Port 0: one that is free; `port` says which, once it is open."""
        self._store, self._worker, self._counters = store, worker, counters
        self._host, self.port = host, port
        self._found: Numbers | None = None
        self._read_at = -READ_SECONDS
        self._reading = asyncio.Lock()
        self.reads = 0
        """How often the store was asked."""

    async def __aenter__(self) -> Self:
        """Listen. Raises UsageError if that port cannot be had."""
        try:
            self._server = await asyncio.start_server(self._serve, self._host, self.port, limit=_REQUEST_BYTES)
        except OSError as error:
            raise UsageError(
                f"--metrics-port {self.port} of {self._host} cannot be listened on: {error.strerror}",
                hint="name another port; each worker needs its own",
            ) from error
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Listen no more."""
        self._server.close()

    async def page(self) -> str:
        """Return the page as it is now."""
        async with self._reading:
            if clock.monotonic() - self._read_at >= READ_SECONDS:
                self._read_at = clock.monotonic()
                self.reads += 1
                try:
                    self._found = await self._store.transact(numbers, lane=Lane.READ)
                except StoreError:
                    self._found = None
        worker, wal_bytes = self._worker, await asyncio.to_thread(self._wal)
        standing = worker.standing if worker.ready.is_set() else None
        return text(self._counters, len(worker.executors), self._found, wal_bytes, standing)

    def _wal(self) -> int | None:
        path = getattr(self._store, "path", None)
        if path is None or path == ":memory:":
            return None
        wal = Path(f"{path}-wal")
        return wal.stat().st_size if wal.exists() else 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await self._answer(head.split(b"\r\n", 1)[0].decode("latin-1").split()))
                await writer.drain()
        writer.close()

    async def _answer(self, request: list[str]) -> bytes:
        method, path = (*request, "", "")[:2]
        if path.partition("?")[0] != "/metrics":
            return _reply("404 Not Found", "there is only /metrics\n")
        if method not in {"GET", "HEAD"}:
            return _reply("405 Method Not Allowed", "GET /metrics\n", "Allow: GET, HEAD\r\n")
        return _reply("200 OK", await self.page(), sends=method == "GET")


def _reply(status: str, body: str, more: str = "", *, sends: bool = True) -> bytes:
    content = body.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
        f"Content-Length: {len(content)}\r\n{more}Connection: close\r\n\r\n"
    )
    return head.encode() + (content if sends else b"")
