"""Restate: its server, one node with its usual durability, and a service of its Python SDK behind hypercorn.

The server belongs to this program: fresh folder, free ports, stopped at the end. RESTATE_SERVER names its binary.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import threading
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import aiohttp
import restate
from hypercorn.asyncio import serve
from hypercorn.config import Config
from measuring import (
    Ground,
    Woken,
    act,
    answer,
    asked,
    bytes_of,
    gaps,
    ground,
    killed,
    payload,
    per_second,
    rss_mb,
    say,
)

if TYPE_CHECKING:
    from pathlib import Path

WANTED = asked(["restate"])
AT_ONCE = 200
PATIENCE_SECONDS = 60
STAMPS: list[float] = []
WOKEN = Woken()
ASLEEP: dict[int, str] = {}
"""The awakeable of each parked run."""
OPTIONS = restate.RunOptions()
service = restate.Service("peer")


async def tiny(n: int) -> dict:
    """Give a payload back."""
    return payload(n)


async def stamped_step(n: int) -> dict:
    """Note the moment."""
    STAMPS.append(time.perf_counter())
    return payload(n)


@service.handler()
async def loop(ctx: restate.Context, steps: int) -> int:
    """W1."""
    for n in range(steps):
        await ctx.run_typed("tiny", tiny, OPTIONS, n)
    return steps


@service.handler()
async def stamped(ctx: restate.Context, steps: int) -> int:
    """W4."""
    for n in range(steps):
        await ctx.run_typed("stamped", stamped_step, OPTIONS, n)
    return steps


@service.handler()
async def parked(ctx: restate.Context, number: int) -> int:
    """W2."""
    name, woken = ctx.awakeable()

    async def note() -> dict:
        ASLEEP[number] = name
        return payload(number)

    await ctx.run_typed("note", note, OPTIONS)
    await woken
    WOKEN.wakes(number)
    return number


async def frontier() -> int:
    """W3: where the first process is killed."""
    say("frontier")
    if WANTED.holds:
        threading.Event().wait()
    return 1


@service.handler()
async def history(ctx: restate.Context, steps: int) -> int:
    """W3."""
    for n in range(steps):
        await ctx.run_typed("tiny", tiny, OPTIONS, n)
    return await ctx.run_typed("frontier", frontier, OPTIONS)


async def effect(line: str) -> int:
    """W5."""
    act(line)
    if WANTED.holds:
        threading.Event().wait()
    return 1


@service.handler()
async def acting(ctx: restate.Context, line: str) -> int:
    """W5."""
    await ctx.run_typed("tiny", tiny, OPTIONS, 0)
    await ctx.run_typed("effect", effect, OPTIONS, line)
    say("done")
    return 1


def free_ports(count: int) -> list[int]:
    """Return ports that nothing listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Server:
    """Restate's server, and what is asked of it over HTTP."""

    def __init__(self, folder: Path, http: aiohttp.ClientSession) -> None:
        """Start it."""
        self.ingress, self.admin, node, self.port = free_ports(4)
        self._http = http
        settings = {
            "RESTATE_BASE_DIR": str(folder),
            "RESTATE_BIND_IP": "127.0.0.1",
            "RESTATE_BIND_PORT": str(node),
            "RESTATE_LISTEN_MODE": "tcp",
            "RESTATE_INGRESS__BIND_PORT": str(self.ingress),
            "RESTATE_ADMIN__BIND_PORT": str(self.admin),
            "RESTATE_DISABLE_TELEMETRY": "true",
            "RESTATE_WORKER__INVOKER__INACTIVITY_TIMEOUT": "10m",
        }
        command = [os.environ["RESTATE_SERVER"], "--no-logo", "--node-name", "peer"]
        self.process = subprocess.Popen(  # noqa: S603
            command, env={**os.environ, **settings}, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    async def _until(self, method: str, url: str, **more: object) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                async with self._http.request(method, url, **more) as answered:
                    if answered.status < 300:  # noqa: PLR2004
                        return
                    said = await answered.text()
            except aiohttp.ClientError as error:
                said = str(error)
            if time.monotonic() > until:
                raise RuntimeError(f"{url}: {said}")
            await asyncio.sleep(0.1)

    async def up(self) -> None:
        """Wait until it answers."""
        await self._until("GET", f"http://127.0.0.1:{self.admin}/health")
        await self._until("GET", f"http://127.0.0.1:{self.ingress}/restate/health")

    async def register(self) -> None:
        """Make the service known, once it listens."""
        where = {"uri": f"http://127.0.0.1:{self.port}", "force": True}
        await self._until("POST", f"http://127.0.0.1:{self.admin}/deployments", json=where)

    async def call(self, name: str, given: object, *, wait: bool = True) -> None:
        """Call a handler; without `wait` only hand it over."""
        url = f"http://127.0.0.1:{self.ingress}/peer/{name}" + ("" if wait else "/send")
        async with self._http.post(url, json=given) as answered:
            answered.raise_for_status()
            await answered.read()

    async def wake(self, number: int) -> None:
        """Resolve what a parked run waits for."""
        url = f"http://127.0.0.1:{self.ingress}/restate/awakeables/{ASLEEP[number]}/resolve"
        async with self._http.post(url, json="now") as answered:
            answered.raise_for_status()

    def stop(self) -> None:
        """Stop it."""
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


async def listen(port: int) -> None:
    """Serve the handlers, for ever."""
    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.h2_max_concurrent_streams = 2**31 - 1
    config.keep_alive_timeout = 3600
    config.loglevel = "ERROR"
    await serve(restate.app([service]), config, shutdown_trigger=asyncio.Event().wait)


@asynccontextmanager
async def server(folder: Path):  # noqa: ANN201
    """Give a server that is up."""
    place = folder / "restate"
    place.mkdir()
    connector, patience = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=patience) as http:
        one = Server(place, http)
        try:
            await one.up()
            yield one
        finally:
            one.stop()


async def throughput(one: Server) -> None:
    """W1: calling is part of it."""
    began = time.perf_counter()
    await asyncio.gather(*[one.call("loop", WANTED.steps) for _ in range(WANTED.runs)])
    answer(WANTED, **per_second(WANTED, time.perf_counter() - began))


async def latency(one: Server) -> None:
    """W4."""
    await one.call("stamped", WANTED.steps)
    answer(WANTED, steps=WANTED.steps, **gaps(STAMPS))


async def sleeping(one: Server, folder: Path) -> None:
    """W2. The server's folder is too young to say what a run costs in it: its log is laid out in advance."""
    idle, server_idle = rss_mb(), rss_mb(one.process.pid)
    empty = bytes_of(str(folder))
    for first in range(0, WANTED.parked, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, WANTED.parked))
        await asyncio.gather(*[one.call("parked", number, wait=False) for number in numbers])
    while len(ASLEEP) < WANTED.parked:
        await asyncio.sleep(0.1)
    await asyncio.sleep(2)
    full, server_full = rss_mb(), rss_mb(one.process.pid)
    per_run = round((bytes_of(str(folder)) - empty) / WANTED.parked)
    for number in WANTED.chosen():
        WOKEN.sends(number)
        await one.wake(number)
        await asyncio.sleep(WOKEN.rest(number))
    while not WOKEN.all:
        await asyncio.sleep(0.02)
    fields = {"folder_bytes_per_parked": per_run, "rss0_mb": idle, "rss_parked_mb": full}
    servers = {"server_rss0_mb": server_idle, "server_rss_parked_mb": server_full}
    answer(WANTED, parked=WANTED.parked, **WOKEN.row(), **fields, **servers)


async def measure(on: Ground) -> None:
    """Do what is asked."""
    async with server(on.folder) as one:
        if WANTED.workload in {"w3", "w5"}:
            there = on._replace(place=str(one.port))
            name, given = ("history", WANTED.history) if WANTED.workload == "w3" else ("acting", on.line)
            begin = asyncio.create_task(_begin(one, name, given))
            answer(WANTED, **await asyncio.to_thread(killed, WANTED, there), note="with the server's back-off")
            await begin
            return
        serving = asyncio.create_task(listen(one.port))
        await one.register()
        await one.call("loop", 2)
        if WANTED.workload == "w1":
            await throughput(one)
        elif WANTED.workload == "w4":
            await latency(one)
        elif WANTED.workload == "w2":
            await sleeping(one, on.folder / "restate")
        else:
            await asyncio.sleep(2)
            answer(WANTED, rss_mb=rss_mb(), server_rss_mb=rss_mb(one.process.pid))
        serving.cancel()


async def _begin(one: Server, name: str, given: object) -> None:
    """Hand the call over as soon as the process that will be killed listens."""
    await one.register()
    await one.call(name, given, wait=False)


if WANTED.role:
    say("loaded")
    asyncio.run(listen(int(WANTED.place)))
with ground(WANTED) as here:
    asyncio.run(measure(here))
os._exit(0)  # its threads do not end by themselves
