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
from torpor.cli.following import PEOPLE
from torpor.cli.options import value_of
from torpor.cli.screen import Screen
from torpor.engine.answers import answer_of
from torpor.engine.queries.people import why_of
from torpor.errors import Conflict, NeedsPerson, NotFound, UsageError
from torpor.runtime import check_input, load_app, opened
from torpor.store import values

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from torpor.client import Client
    from torpor.engine.queries.people import InboxItem
    from torpor.sdk.app import App

TIMED_OUT = 124
_LATE = b""
"""In the place of a result: it did not come in time. No stored body is empty."""


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
    check_input(app.flows[wanted.program], wanted.value)
    screen = Screen.of(sys.stderr)
    async with opened(url) as store:
        driver = Driver(store, app)
        feed = Feed(driver.client, screen, only="-")
        working = await driver.start(feed)
        try:
            started = await driver.client.start(wanted.program, wanted.value, key=wanted.key)
            feed.only = "-" if as_json else started.run_id
            if not started.created and not as_json:
                screen.say(f"{started.run_id} was started before with this key, and keeps its input; it goes on here")
            body = await _unless_stopped(working, _ended(driver.client, feed, started.run_id, wanted, screen))
        finally:
            await driver.finish()
            await feed.finish()
    if body is _LATE:
        return _goes_on(screen, started.run_id, wanted, TIMED_OUT)
    if body is None:
        return _goes_on(screen, started.run_id, wanted, INTERRUPTED if driver.interrupted else 0)
    result = values.plain(body)
    if as_json:
        write({"run": started.run_id, "state": "completed", "result": result}, out)
    else:
        simple = not isinstance(result, dict | list)
        out.write(json.dumps(result, ensure_ascii=False, indent=None if simple else 2) + "\n")
        out.flush()
    return 0


async def _unless_stopped(working: asyncio.Task[None], waiting: Coroutine[Any, Any, bytes]) -> bytes | None:
    """Return what is waited for, or None if the worker was told to stop before."""
    ending = asyncio.create_task(waiting)
    await asyncio.wait([ending, working], return_when=asyncio.FIRST_COMPLETED)
    if ending.done():
        try:
            return await ending
        except TimeoutError:
            return _LATE
    ending.cancel()
    await working
    return None


def _goes_on(screen: Screen, run: str, wanted: Wanted, code: int) -> int:
    """Say that the run is still there, and how it goes on."""
    why = f"had not ended after {wanted.timeout_seconds:g} seconds; it " if code == TIMED_OUT else ""
    screen.say(f"{run} {why}goes on with: torpor worker {wanted.app}   and is seen with: torpor show {run}")
    return code


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
        if wait.kind not in PEOPLE:
            continue
        try:
            item = await client.wait(wait.wait)
        except (Conflict, NotFound):
            continue  # decided meanwhile
        if not wanted.asks or not (sys.stdin.isatty() and sys.stderr.isatty()):
            command = render.verbs(item)[0][0]
            hint = f"{command}   then torpor worker {wanted.app} goes on with it"
            raise NeedsPerson(f"{run} needs a person: {item.asks} {item.what}{why_of(item)}", hint=hint)
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
    if item.asks == "budget":
        await _ask_for_money(client, item, wanted)
        return
    if item.asks == "answer":
        await _answer(client, item, wanted, screen)
        return
    happened = "did it happen? [h]appened, " if item.asks == "settle" else ""
    question = f"{happened}[a]gain, [f]ailed, [l]eave it "
    said = (await _line(question)).lower()[:1]
    if said == "h" and item.asks == "settle":
        await client.answer(item.wait, happened=await _result(screen), by=wanted.by)
    elif said == "a":
        await client.answer(item.wait, again=True, by=wanted.by)
    elif said == "f":
        await client.answer(item.wait, fail=await _line("why? ") or "a person said so", by=wanted.by)
    else:
        raise NeedsPerson(f"{item.run} needs a person: {item.asks} {item.what}", hint=f"torpor inbox {item.wait}")


async def _ask_for_money(client: Client, item: InboxItem, wanted: Wanted) -> None:
    said = (await _line("[r]aise the limit, allow it [o]nce, [n]o, [l]eave it ")).lower()[:1]
    if said == "r":
        await client.raise_budget(item.wait, await _line("by how many dollars? "), by=wanted.by)
    elif said == "o":
        await client.allow_once(item.wait, by=wanted.by)
    elif said == "n":
        await client.refuse_budget(item.wait, await _line("why? "), by=wanted.by)
    else:
        raise NeedsPerson(f"{item.run} needs a person: {item.what}", hint=f"torpor inbox {item.wait}")


async def _answer(client: Client, item: InboxItem, wanted: Wanted, screen: Screen) -> None:
    """Ask until the answer fits, or nothing is said."""
    while said := await _line(f"{item.what} "):
        try:
            await client.answer(item.wait, value=answer_of(item.content, said), by=wanted.by)
        except UsageError as refused:
            screen.say(refused.message)
        else:
            return
    raise NeedsPerson(f"{item.run} needs a person: {item.asks} {item.what}", hint=f"torpor inbox {item.wait}")


async def _result(screen: Screen) -> Any:
    while True:
        given = await _line("what did it give back? JSON, empty for nothing: ")
        try:
            return value_of(given or None, "that")
        except UsageError as error:
            screen.say(error.message)


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
