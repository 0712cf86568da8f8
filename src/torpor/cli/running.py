"""`torpor run`: one run, from start to end, in this process; its questions are asked in the terminal."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from torpor import clock
from torpor.cli import render
from torpor.cli.deciding import closest
from torpor.cli.documents import write
from torpor.cli.driving import INTERRUPTED, Driver, log_to_stderr
from torpor.cli.feed import Feed
from torpor.cli.screen import Screen
from torpor.errors import Conflict, NeedsPerson, NotFound, UsageError
from torpor.runtime import load_app, opened
from torpor.store import values

if TYPE_CHECKING:
    from torpor.client import Client
    from torpor.engine.queries.people import InboxItem
    from torpor.sdk.app import App

TIMED_OUT = 124


class Wanted(NamedTuple):
    """What is to be run. `by` decides its questions; without `asks` they are never asked here."""

    app: str
    program: str
    value: Any
    key: str | None
    timeout_seconds: float | None
    by: str
    asks: bool


async def run_here(wanted: Wanted, url: str, out: IO[str], *, as_json: bool) -> int:
    """Run it and write its result; return the exit code. Raises RunFailed, RunCancelled, NeedsPerson and what a store says."""
    log_to_stderr(logging.WARNING if as_json else logging.INFO)
    app = load_app(wanted.app)
    _check_program(app, wanted)
    screen = Screen.of(sys.stderr)
    async with opened(url) as store:
        driver = Driver(store, app)
        feed = Feed(driver.client, screen, only="-")
        working = await driver.start(feed)
        try:
            started = await driver.client.start(wanted.program, wanted.value, key=wanted.key)
            feed.only = "-" if as_json else started.run_id
            if not started.created and not as_json:
                screen.say(f"{started.run_id} was started before with this key; it goes on here")
            ending = asyncio.create_task(_ended(driver.client, feed, started.run_id, wanted, screen))
            await asyncio.wait([ending, working], return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                ending.cancel()
                screen.say(f"{started.run_id} goes on: torpor worker {wanted.app}   and then: torpor show {started.run_id}")
                return INTERRUPTED if driver.interrupted else 0
            body = await ending
        except TimeoutError:
            screen.say(f"error: {started.run_id} had not ended after {wanted.timeout_seconds:g} seconds")
            screen.say(f"hint: it goes on: torpor worker {wanted.app}")
            return TIMED_OUT
        finally:
            await driver.finish()
            await feed.finish()
    result = values.plain(body)
    if as_json:
        write({"run": started.run_id, "state": "completed", "result": result}, out)
    else:
        simple = not isinstance(result, dict | list)
        out.write(json.dumps(result, ensure_ascii=False, indent=None if simple else 2) + "\n")
        out.flush()
    return 0


def _check_program(app: App, wanted: Wanted) -> None:
    if wanted.program not in app.flows:
        has = ", ".join(sorted(app.flows)) or "none"
        near = closest(wanted.program, sorted(app.flows)).replace("torpor start", f"torpor run {wanted.app}")
        raise UsageError(f'no program named "{wanted.program}" in {wanted.app} (it has: {has})', hint=near)


async def _ended(client: Client, feed: Feed, run: str, wanted: Wanted, screen: Screen) -> bytes:
    """Return the result's body, asking a person whenever the run was put away for one."""
    ending = asyncio.create_task(client.ended(run, timeout_seconds=wanted.timeout_seconds))
    try:
        feed.asks.set()  # a run that was started before may be waiting for a person already
        while True:
            asks = asyncio.create_task(feed.asks.wait())
            await asyncio.wait([ending, asks], return_when=asyncio.FIRST_COMPLETED)
            asks.cancel()
            if ending.done():
                return await ending
            feed.asks.clear()
            await _ask_all(client, run, wanted, screen)
    finally:
        ending.cancel()


async def _ask_all(client: Client, run: str, wanted: Wanted, screen: Screen) -> None:
    line = await client.get(run)
    if line.shown != "needs you":
        return
    for wait in line.waits:
        if wait.kind not in {"approval", "attention"}:
            continue
        try:
            item = await client.wait(wait.wait)
        except NotFound:
            continue  # decided meanwhile
        if not wanted.asks or not (sys.stdin.isatty() and sys.stderr.isatty()):
            command = render.verbs(item)[0][0]
            raise NeedsPerson(f"{run} needs a person: {item.asks} {item.what}", hint=f"{command}   and then the same command, with --key, or torpor worker")
        try:
            await _ask(client, item, wanted, screen)
        except Conflict as first:
            screen.say(first.message)


async def _ask(client: Client, item: InboxItem, wanted: Wanted, screen: Screen) -> None:
    for line in render.item_lines(screen, item, clock.wall()):
        if line.startswith("next: "):
            break
        screen.say(line)
    if item.asks == "approve":
        said = await _line(f"approve {item.what} [y/N] ")
        if said.lower() in {"y", "yes"}:
            await client.approve(item.wait, by=wanted.by, digest=item.digest)
        else:
            await client.deny(item.wait, by=wanted.by)
        return
    question = "did it happen? [h]appened, [a]gain, [f]ailed, [l]eave it " if item.asks == "settle" else "[a]gain, [f]ail, [l]eave it "
    said = (await _line(question)).lower()[:1]
    if said == "h" and item.asks == "settle":
        given = await _line("what did it give back? JSON, empty for nothing: ")
        await client.answer(item.wait, happened=json.loads(given) if given else None, by=wanted.by)
    elif said == "a":
        await client.answer(item.wait, again=True, by=wanted.by)
    elif said == "f":
        await client.answer(item.wait, fail=await _line("why? ") or "a person said so", by=wanted.by)
    else:
        raise NeedsPerson(f"{item.run} needs a person: {item.asks} {item.what}", hint=f"torpor inbox {item.wait}")


async def _line(question: str) -> str:
    """Ask on the terminal and return the line. Nothing blocks meanwhile, and Ctrl-C is heard."""
    sys.stderr.write(question)
    sys.stderr.flush()
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(sys.stdin, readable.set)
    try:
        await readable.wait()
        return sys.stdin.readline().strip()
    finally:
        loop.remove_reader(sys.stdin)
