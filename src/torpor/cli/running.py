"""`torpor run`: one run, from start to end, in this process; it shows what the run says, and its questions are asked here."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections import deque
from contextlib import aclosing, contextmanager
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from torpor import clock
from torpor.cli.asking import MESSAGE, Asker, hears
from torpor.cli.documents import write
from torpor.cli.driving import INTERRUPTED, Driver, log_of, log_to_stderr
from torpor.cli.feed import Feed, Said
from torpor.cli.keyboard import Keyboard
from torpor.cli.live import View
from torpor.cli.region import Beside, Region
from torpor.cli.screen import Screen, clean
from torpor.cli.spoken import moment
from torpor.client.listening import POLL_SECONDS
from torpor.engine.queries.spoken import duration, wait_words
from torpor.errors import StoreUnavailable, TorporError
from torpor.runtime import check_input, opened
from torpor.store import values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torpor.client import Client, Started
    from torpor.engine.queries.show import RunShown, Unread
    from torpor.engine.queries.told import Heard
    from torpor.sdk.app import App, Flow

TIMED_OUT = 124
RECALLED = 200
"""So many of its newest parts are shown of a run that goes on."""
_LONG = 200
"""A longer command line is not repeated."""


class Wanted(NamedTuple):
    """What is to be run. `by` decides its questions; without `asks` they are never asked here."""

    app: str
    program: str
    value: Any
    key: str | None
    afresh: bool
    timeout_seconds: float | None
    by: str
    asks: bool
    again: str
    """The command that goes on with it."""


class Rest(NamedTuple):
    """Why it is not waited for any longer, while the run goes on or sleeps."""

    code: int
    why: str = ""
    result: Any = None
    """What it answered last, if it is a conversation."""


async def run_here(app: App, wanted: Wanted, url: str, out: IO[str], *, as_json: bool) -> int:
    """Run it and write its result; return the exit code. Raises RunFailed, RunCancelled, NeedsPerson and what a store says."""
    log_to_stderr(logging.WARNING if as_json else logging.INFO)
    flow = app.flows[wanted.program]
    check_input(flow, wanted.value)
    async with opened(url) as store:
        driver = Driver(store, app)
        running = Running(driver, wanted, flow, out, as_json=as_json)
        with running.shown():
            return await running.to_its_end()


class Running:
    """One run, looked at and worked on here."""

    def __init__(self, driver: Driver, wanted: Wanted, flow: Flow, out: IO[str], *, as_json: bool) -> None:
        """Wire what drives it, what shows it and what asks about it."""
        self._driver = driver
        self._client: Client = driver.client
        self._wanted = wanted
        self._flow = flow
        self._out = out
        self._as_json = as_json
        self._screen = Screen.of(sys.stderr)
        self._region = Region(self._screen)
        self._live = not as_json and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._view = View(self._screen, self._region if self._live else None)
        self._keyboard = Keyboard(self._region)
        self._talks = wanted.asks and self._keyboard.there
        self._feed = Feed(self._client, self._screen, only="-")
        self._feed.sink = self._shows
        self._answered: Any = None
        """The answer of a conversation that was shown last."""

    @contextmanager
    def shown(self) -> Iterator[None]:
        """While it is shown on a terminal, let whatever else is written there stand by itself."""
        if not self._live:
            yield
            return
        before = sys.stdout, sys.stderr
        shown = (one for one in logging.getLogger().handlers if isinstance(one, logging.StreamHandler))
        logged = [one for one in shown if one.stream is sys.stderr]
        sys.stderr = Beside(sys.stderr, self._region)
        if sys.stdout.isatty():
            sys.stdout = Beside(sys.stdout, self._region)
        for one in logged:
            one.setStream(sys.stderr)
        try:
            yield
        finally:
            self._region.commit()
            for one in logged:
                one.setStream(before[1])
            sys.stdout, sys.stderr = before

    async def to_its_end(self) -> int:
        """Run, show, ask; write the result and return the exit code."""
        client, wanted = self._client, self._wanted
        working = await self._driver.start(self._feed)
        following: asyncio.Task[None] | None = None
        run = ""
        try:
            if wanted.key is not None:
                started = await client.start(wanted.program, wanted.value, key=wanted.key)
            else:
                started = await client.pick_up(wanted.program, wanted.value, by=wanted.by, afresh=wanted.afresh)
            run = started.run_id
            log_of(run)
            self._feed.only = "-" if self._as_json else run
            if not self._as_json:
                await self._greet(started)
                following = asyncio.create_task(self._view.follow(client, run))
            ended = await self._unless_stopped(working, run)
        except TorporError:
            if following is not None:  # what it said before that is told first
                await self._view.catch_up(client, run)
                self._view.settle()
            raise
        finally:
            await self._driver.finish()
            await self._feed.finish()
            if following is not None:
                following.cancel()
        if not self._as_json:
            await self._view.catch_up(client, run)
        if isinstance(ended, Rest):
            return await self._rests(run, ended)
        return self._write(run, values.plain(ended))

    async def _greet(self, started: Started) -> None:
        """Say which run it is, and of one that goes on what it said last."""
        run, say, paint = started.run_id, self._view.say, self._screen.paint
        if started.created:
            if self._live:
                say(paint(run, "dim"))
            return
        shown = await self._client.show(run)
        ago = duration(shown.at - shown.line.created_at)
        if self._wanted.key is not None:
            self._wrapped(f"{run} was started before with this key, and keeps its input; it goes on here")
        else:
            self._wrapped(f"{run} goes on: this command started it {ago} ago; --new starts another")
        recalled = max(0, shown.parts - RECALLED)
        if self._live:
            self._view.n = recalled
        else:
            await self._view.pass_over(self._client, run, recalled, shown.parts)
        if self._live and self._view.n:
            say(paint(f"what it said before: torpor tail {run}", "dim"))
        await self._recall(run, deque(_typed(shown, self._flow.hears) if self._live else ()))

    async def _recall(self, run: str, typed: deque[tuple[int, str]]) -> None:
        """Tell what it said before, and what was said to it: each message where it was heard, as when it was typed."""
        cut = self._view.n > 0
        async with aclosing(self._client.stream(run, self._view.n, follow=False)) as parts:
            async for part in parts:
                while cut and typed and typed[0][0] < part.at:
                    typed.popleft()  # it belongs to what is not told any more
                cut = False
                while typed and typed[0][0] < part.at:
                    self._say_typed(typed.popleft()[1])
                self._view.take(part)
        for _, text in typed:
            self._say_typed(text)

    def _say_typed(self, text: str) -> None:
        self._view.settle()
        for n, line in enumerate(text.split("\n")):
            self._view.say(f"{'' if n else MESSAGE}{clean(line)}")

    def _wrapped(self, sentence: str) -> None:
        """Say a sentence, broken between words."""
        for line in self._screen.wrapped("", sentence, 2):
            self._view.say(line)

    def _shows(self, said: Said) -> bool:
        """Show what happens to the run; False: it is for the feed to say it, in a line."""
        if not self._live or said.name != self._feed.only:
            return False
        self._view.thinks(
            "thinking" if self._flow.hears else "at work"
        ) if said.word == "running" else self._view.thinks("")
        if said.word == "running" and said.text == "awake":
            return True
        if said.word in {"completed", "cancelled", "failed"} or (said.word == "needs you" and self._talks):
            return True  # the end, or the question itself, follows
        if (
            said.word == "asleep"
            and self._flow.hears
            and said.text == f"asleep: {wait_words(f'message {self._flow.hears}')}"
        ):
            return True
        self._view.say(self._feed.line(said))
        return True

    async def _unless_stopped(self, working: asyncio.Task[None], run: str) -> bytes | Rest:
        """Return the result's body, or why it is not waited for: the worker was told to stop, for example."""
        ending = asyncio.create_task(self._ended(run))
        await asyncio.wait([ending, working], return_when=asyncio.FIRST_COMPLETED)
        if ending.done():
            return await ending
        ending.cancel()
        await asyncio.wait([ending])
        await working
        return Rest(INTERRUPTED if self._driver.interrupted else 0)

    async def _ended(self, run: str) -> bytes | Rest:
        """Return the result's body, asking a person whenever the run waits for one."""
        wanted = self._wanted
        ending = asyncio.create_task(self._client.ended(run, timeout_seconds=wanted.timeout_seconds))
        again = wanted.again if len(wanted.again) <= _LONG else "the same command"
        asker = Asker(self._client, self._view, self._keyboard, by=wanted.by, asks=wanted.asks, again=again)
        try:
            while not ending.done():
                attending = asyncio.create_task(self._attend(asker, run))
                await asyncio.wait([ending, attending], return_when=asyncio.FIRST_COMPLETED)
                if not attending.done():
                    attending.cancel()
                    await asyncio.wait([attending])
                    await asker.withdraw()
                elif (rest := await attending) is not None:
                    return rest
                else:
                    await self._stirred(ending)
            return await ending
        except TimeoutError:
            return Rest(TIMED_OUT, f"had not ended after {wanted.timeout_seconds:g} seconds")
        finally:
            ending.cancel()

    async def _stirred(self, ending: asyncio.Task[bytes]) -> None:
        """Return when the run may wait for a person: it was put away here, or a moment has passed and it was elsewhere."""
        rests = asyncio.create_task(self._feed.rests.wait())
        await asyncio.wait([ending, rests], timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        rests.cancel()
        self._feed.rests.clear()

    async def _attend(self, asker: Asker, run: str) -> Rest | None:
        """Ask what is to be asked; return a Rest if that is the end of it here."""
        try:
            await asker.attend(run)
            name = self._flow.hears
            if not name or not hears(await self._client.get(run), name):
                return None
            answer = await self._client.view(run)
            if not self._talks:
                return Rest(0, "waits for what you say next", answer)
            await self._view.catch_up(self._client, run)
            self._show_answer(answer)
            return None if await asker.message(run, name) else Rest(0, "waits for what you say next")
        except StoreUnavailable:
            return None  # it is asked again

    def _show_answer(self, answer: Any) -> None:
        """Let an answer stand on the screen, once: it may not have been spoken."""
        fresh, self._answered = answer != self._answered, answer
        spoken = self._view.settle(but=answer if isinstance(answer, str) else None)
        if answer is not None and fresh and not spoken:
            for line in _written(answer, plain=True).splitlines():
                self._view.say(line)

    # the end

    def _write(self, run: str, result: Any) -> int:
        if self._as_json:
            write({"run": run, "state": "completed", "result": result}, self._out)
            return 0
        plain = bool(self._flow.hears)
        spoken = self._view.settle(but=result if plain and isinstance(result, str) else None)
        if not (spoken and self._live and self._out.isatty()):  # there it stands already
            self._out.write(_written(result, plain=plain) + "\n")
            self._out.flush()
        return 0

    async def _rests(self, run: str, rest: Rest) -> int:
        """Say that the run is still there, how it stands, and how it goes on."""
        line = await self._client.get(run)
        if self._as_json:
            write({"run": run, "state": line.state, "result": rest.result}, self._out)
            return rest.code
        answer = rest.result
        spoken = self._view.settle(but=answer if isinstance(answer, str) else None)
        if answer is not None and not (spoken and self._live and self._out.isatty()):
            self._out.write(_written(answer, plain=True) + "\n")
            self._out.flush()
        until = f" until {moment(line.next_at, clock.wall())}" if line.next_is == "wakes" and line.next_at else ""
        stands = {
            "asleep": f"sleeps{until}",
            "needs you": "waits for you",
            "running": f"goes on on {line.worker}",
        }.get(line.shown, f"rests at turn {line.turn}")
        self._wrapped(f"{run} {rest.why or stands}; nothing of it is lost. It goes on with the same command")
        if len(self._wanted.again) <= _LONG:
            self._screen.say(f"next: {self._wanted.again}")
            self._screen.say(f"      torpor show {run}")
        else:
            self._screen.say(f"next: torpor show {run}")
        return rest.code


def _typed(shown: RunShown, name: str) -> Iterator[tuple[int, str]]:
    """Yield when messages of a name were heard, oldest first, and what they say; then those that are still unread."""
    messages: list[Heard | Unread] = [*shown.heard, *shown.unread]
    for message in messages:
        if message.name == name:
            yield message.at, _written(message.value, plain=True)


def _written(result: Any, *, plain: bool) -> str:
    """Return a result as it is written: JSON, but of an agent a text as it is."""
    if plain and isinstance(result, str):
        return result
    simple = not isinstance(result, dict | list)
    return json.dumps(result, ensure_ascii=False, indent=None if simple else 2)
