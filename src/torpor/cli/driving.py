"""A worker and a waker in this process, until they are told to stop: what `dev`, `run` and `worker` share."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from torpor import clock
from torpor.cli import children
from torpor.cli.documents import iso
from torpor.cli.options import settings
from torpor.cli.screen import Screen
from torpor.cli.spoken import moment
from torpor.client import Client
from torpor.engine.queries.spoken import plural
from torpor.runtime import Process, tune
from torpor.worker.unsettled import buying

if TYPE_CHECKING:
    from torpor.cli.feed import Feed
    from torpor.sdk.app import App
    from torpor.store.protocol import Store

INTERRUPTED = 130
_STAMP = 9
"""What a log line says goes on below what it says, not below its time."""


class Driver:
    """Drives an app's runs on a store. The first Ctrl-C drains, the second leaves at once."""

    def __init__(self, store: Store, app: App, **options: Any) -> None:
        """Wire them; nothing runs before `start`. `options` are the worker's, None for its own default."""
        os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")  # which it would print into what a person reads
        given = {name: value for name, value in options.items() if value is not None}
        self.process = Process(store, app, **{"shut_seconds": settings().shut_seconds, **given})
        self.client = Client(store)
        self.interrupted = False
        self.acting: list[str] = []
        """Runs whose effects acted when it was told to stop."""
        self._waits = False
        """Whether it was said for what it waits, and that Ctrl-C leaves at once."""
        self._working: asyncio.Task[None] | None = None

    @property
    def worker_name(self) -> str:
        """The worker's name."""
        return self.process.worker.name

    async def start(self, feed: Feed | None = None) -> asyncio.Task[None]:
        """Begin to work, and return once the worker claims. Raises what keeps it from beginning."""
        if feed is not None:
            self.process.worker.on_event = feed.heard
        tune()
        self.process.alone = True
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        loop.add_signal_handler(signal.SIGTERM, self.stop)
        children.see_to_signals()
        working = self._working = loop.create_task(self.process.run())
        ready = loop.create_task(self.process.worker.ready.wait())
        await asyncio.wait([working, ready], return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if working.done():
            await working
        return working

    def _interrupt(self) -> None:
        if self.interrupted or self._waits:
            sys.stderr.write("\nleft at once; what was in flight is settled when the run is taken up again\n")
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        self.interrupted = True
        self.stop()
        if not self.acting and sys.stderr.isatty():
            sys.stderr.write("\n")  # the terminal has written ^C, and what follows is a line of its own
            sys.stderr.flush()

    def stop(self) -> None:
        """Take no more runs, let effects end, give everything back."""
        worker = self.process.worker
        if not self.acting:
            self.acting = [e.name for e in worker.executors.values() if e.progress.effects.past_gate]
            shut = worker.ready.is_set() and not worker.standing.ok()
            waiting = ""
            answering = [e.name for e in worker.executors.values() if buying(e)]
            if self.acting:
                gate = " and for the gate, which is shut, to open" if shut else ""
                waiting = f"an effect of {', '.join(self.acting)} to end{gate}"
            elif answering and not (shut or worker.stopping.asked):
                waiting = f"the model that answers {', '.join(answering)}"
            elif shut and not worker.stopping.asked and (unsettled := worker.unsettled):
                waiting = f"the gate, which is shut, to open, so that what {', '.join(unsettled)} did is recorded"
            if waiting:
                self._waits = True
                again = " again" if self.interrupted else ""
                sys.stderr.write(f"\nwaiting for {waiting}; Ctrl-C{again} leaves at once\n")
                sys.stderr.flush()
        worker.stop()

    async def finish(self) -> None:
        """Stop and wait until everything was given back."""
        self.stop()
        if self._working is not None:
            await self._working


async def last_words(client: Client, driver: Driver, feed: Feed) -> str:
    """Return how things stand after a drain, as in `1 run asleep, next wake 09:12:14. No effect was in flight.`."""
    fleet = await client.fleet()
    needs = sum(line.shown == "needs you" for line in fleet.runs)
    asleep = fleet.counts["waiting"] - needs
    waking = [line.next_at for line in fleet.runs if line.next_is == "wakes" and line.next_at is not None]
    wake = f", next wake {moment(min(waking), fleet.at)}" if waking else ""
    parts = [
        f"{plural(asleep, 'run')} asleep{wake}" if asleep else "",
        f"{plural(needs, 'run')} {'needs' if needs == 1 else 'need'} you" if needs else "",
        f"{fleet.counts['ready']} ready" if fleet.counts["ready"] else "",
    ]
    standing = ", ".join(part for part in parts if part) or "Nothing is open"
    left = [name for name in driver.acting if name in feed.lost]
    ended = [name for name in driver.acting if name not in feed.lost]
    effects = [f"{plural(len(ended), 'effect')} in flight ended first" if ended else "No effect was in flight"]
    if left:
        effects = [f"An effect of {', '.join(left)} was still in flight: torpor doctor"]
    return ". ".join([standing, *effects]) + "."


def log_to_stderr(level: int, *, as_json: bool = False) -> None:
    """Show torpor's log lines, an author's `ctx.log` among them, on standard error; as JSON lines for machines."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    logging.getLogger("torpor").setLevel(level)
    for shown in logging.getLogger().handlers:
        people = ForPeople("%(asctime)s %(message)s", datefmt="%H:%M:%S", wraps=sys.stderr.isatty())
        shown.setFormatter(JsonLines() if as_json else people)


def log_of(run: str) -> None:
    """Do not name this run in each of its log lines: it is the one that is looked at."""
    for shown in logging.getLogger().handlers:
        if isinstance(shown.formatter, ForPeople):
            shown.formatter.run = run


class ForPeople(logging.Formatter):
    """What happened, what it says, then what else the line carries by name: all but the worker, and the run if it is `run`.

    With `wraps` a line is broken between words where the terminal ends.
    """

    def __init__(self, *given: Any, run: str = "", wraps: bool = False, **more: Any) -> None:
        """Format as `logging.Formatter` does."""
        super().__init__(*given, **more)
        self.run = run
        self._wraps = wraps

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name that logging gives it
        """Return the line."""
        fields = dict(getattr(record, "fields", None) or {})
        if "event" in fields:
            said = f": {fields.pop('said')}" if "said" in fields else ""
            hidden = {"event", "worker", *({"run"} if fields.get("run") == self.run else ())}
            if str(fields["event"]).startswith(f"{fields.get('flow')}: "):  # it begins with the name
                hidden.add("flow")
            more = " ".join(f"{name}={_spelled(value)}" for name, value in fields.items() if name not in hidden)
            record.message = f"{fields['event']}{said}{'   ' if more else ''}{more}"
        told = super().formatMessage(record)
        if not self._wraps:
            return told
        screen = Screen.of(sys.stderr)
        return "\n".join(part for line in told.split("\n") for part in screen.wrapped("", line, _STAMP))


def _spelled(value: Any) -> str:
    """Return a value of a line: in quotes if it has several words."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return json.dumps(text, ensure_ascii=False) if isinstance(value, str) and (not text or " " in text) else text


class JsonLines(logging.Formatter):
    """One JSON object a line: `at` (UTC), `level`, `logger`, `event`, and what else the line carries."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields = dict(getattr(record, "fields", None) or {"event": record.getMessage()})
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        at = iso(round(record.created * clock.SECOND))
        told = {"at": at, "level": record.levelname.lower(), "logger": record.name, **fields}
        return json.dumps(told, ensure_ascii=False, default=str)
