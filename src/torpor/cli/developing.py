"""`torpor dev`: a worker and a waker that are replaced when the code changes.

A change drains the worker (steps are given up, effects end first, leases go back) and then the process becomes a fresh one
in its place (`exec`), so that no class of the old code is left in it; its runs go on from where they were. Code that cannot
be loaded leaves the runs asleep until the next change.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import signal
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from torpor import clock
from torpor.cli.documents import iso, write
from torpor.cli.driving import INTERRUPTED, Driver, last_words, log_to_stderr
from torpor.cli.feed import Feed
from torpor.cli.problems import tell
from torpor.cli.screen import Screen
from torpor.cli.spoken import clock_time
from torpor.client import without_password
from torpor.engine.queries.spoken import duration, plural
from torpor.errors import StoreUnavailable, UsageError
from torpor.runtime import load_app, opened

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torpor.engine.queries.fleet import Fleet
    from torpor.sdk.app import App, Flow

RELOADED = "TORPOR_DEV_RELOADED"
"""Set for the process that takes this one's place: what changed."""
DEBOUNCE_MILLISECONDS = 300
_INDENT = 12
"""Where what is said of the programs begins."""
_START = "start one:  "
_TIED = "\N{NO-BREAK SPACE}"
"""Between two words that stay on one line."""


def choose_app(command: str = "dev") -> str:
    """Return the only app there is here, when none was named to a command. Raises UsageError."""
    found = sorted(path.name for path in Path().glob("*.py") if "App(" in path.read_text("utf-8", "replace"))
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError(
            "there is no app in this folder", hint=f"torpor init writes hello.py; then torpor {command} hello.py"
        )
    raise UsageError(f"which app? {', '.join(found)}", hint=f"torpor {command} {found[0]}")


def start_again() -> None:
    """Become a fresh process with the same command line: the code is read anew."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - this very program again


async def develop(place: str, url: str, name: str, out: IO[str], *, as_json: bool) -> int | None:
    """Work until Ctrl-C and return the exit code; None: the code changed, start again."""
    log_to_stderr(logging.INFO)
    reloaded = os.environ.pop(RELOADED, "")
    screen = Screen.of(out)
    watch = Watch(place)
    await watch.begin()
    try:
        app = load_app(place)
    except Exception as error:
        if not reloaded:
            raise
        tell(error)
        return await _broken(place, watch, screen, as_json=as_json)
    fresh = not await asyncio.to_thread(_exists, url)
    async with opened(url) as store:
        driver = Driver(store, app, name=name)
        feed = Feed(driver.client, screen, lines=out if as_json else None, held=True)
        standing = "new" if fresh else standing_of(await driver.client.fleet())
        working = await driver.start(feed)
        if reloaded:
            _say(screen, out, f"reloaded {reloaded}", "reloaded", as_json=as_json)
        elif as_json:
            started = {"event": "started", "programs": sorted(app.flows), "store": without_password(url)}
            write({"at": iso(clock.wall()), **started}, out, line=True)
        else:
            for line in _header(app, place, url, name, standing):
                for part in _parts(screen, line):
                    screen.say(part)
        feed.release()
        os.environ[RELOADED] = await watch.until(working)
        driver.stop()
        try:
            await working
        except StoreUnavailable as ended:  # a gate that stayed shut: the next process has one of its own
            if not os.environ[RELOADED] or driver.interrupted:
                raise
            tell(ended)
        await feed.finish()
        watch.close()
        if os.environ[RELOADED]:
            return None
        _say(screen, out, await last_words(driver.client, driver, feed), "stopped", as_json=as_json, stamped=False)
    return INTERRUPTED if driver.interrupted else 0


def _exists(url: str) -> bool:
    return url.startswith("postgres") or Path(url.removeprefix("sqlite:///")).exists()


def _say(screen: Screen, out: IO[str], text: str, event: str, *, as_json: bool, stamped: bool = True) -> None:
    at = clock.wall()
    if as_json:
        write({"at": iso(at), "event": event, "text": text}, out, line=True)
    else:
        for line in screen.wrapped(f"{clock_time(at)}   " if stamped else "", text, _INDENT - 1 if stamped else 2):
            screen.say(line)


def _header(app: App, place: str, url: str, name: str, standing: str) -> Iterable[str]:
    from torpor import __version__

    sqlite = not url.startswith("postgres")
    where = f"SQLite {url.removeprefix('sqlite:///')}" if sqlite else f"PostgreSQL {without_password(url)}"
    file = place.partition(":")[0]
    flow = next(iter(app.flows.values()))
    sample = example_input(flow)
    yield f"torpor {__version__}   {where} ({standing})   Python {platform.python_version()}"
    yield ""
    kinds = ((known, "agent" if app.flows[known].hears else "flow") for known in sorted(app.flows))
    yield f"  programs  {', '.join(f'{known}{_TIED}({kind})' for known, kind in kinds)}"
    yield f"  worker    {name}, reloads when {file} changes"
    yield "  people    torpor inbox"
    yield ""
    yield f"{_START}torpor start {flow.name}{f' {sample}' if sample else ''}"
    yield f"Ctrl-C stops {name}. Runs stay asleep in the store and wake when you come back."
    yield ""


def _parts(screen: Screen, line: str) -> list[str]:
    """Return a line broken between words; a command to be pasted as it is."""
    if line.startswith(_START):
        return [line]
    broken = screen.wrapped("", line, _INDENT if line.startswith(" ") else 2)
    return [part.replace(_TIED, " ") for part in broken]


def standing_of(fleet: Fleet) -> str:
    """Return what is in the store already: `1 run asleep, 2 need you; slept through 1 timer`."""
    needs = sum(line.shown == "needs you" for line in fleet.runs)
    asleep = fleet.counts["waiting"] - needs
    overdue = [
        line for line in fleet.runs if line.next_is == "wakes" and line.next_at is not None and line.next_at < fleet.at
    ]
    parts = [
        f"{plural(asleep, 'run')} asleep" if asleep else "",
        f"{needs} {'needs' if needs == 1 else 'need'} you" if needs else "",
        f"{fleet.counts['ready']} ready" if fleet.counts["ready"] else "",
        f"{fleet.counts['running']} running" if fleet.counts["running"] else "",
    ]
    said = ", ".join(part for part in parts if part) or "nothing open"
    if not overdue:
        return said
    late = duration(fleet.at - min(line.next_at or fleet.at for line in overdue))
    return f"{said}; slept through {plural(len(overdue), 'timer')}, {late} ago"


def example_input(flow: Flow) -> str:
    """Return an input to be pasted, by the annotation of the flow's state."""
    samples = {str: "'\"Ana\"'", int: "1", float: "1.5", bool: "true", list: "'[]'", dict: "'{}'"}
    if not flow.takes_state:
        return ""
    if flow.hears:
        return "'\"Hello\"'"
    kind = getattr(flow.state_type, "__origin__", flow.state_type)
    if kind is None:
        return "null"
    return samples.get(kind, "'{}'")


# changes


class Watch:
    """Watches the Python files of a folder. It begins before the code is loaded, so that no change falls in between."""

    def __init__(self, place: str) -> None:
        """Begin to watch the folder of an app."""
        where = place.partition(":")[0]
        self._root = Path(where).resolve().parent if where.endswith(".py") else Path.cwd()
        self._found: asyncio.Queue[set[str]] = asyncio.Queue()
        self._watching: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Begin, and return once every later change is seen."""
        self._watching = asyncio.create_task(self._watch())
        await asyncio.sleep(0)  # the watch is set in its first step

    async def _watch(self) -> None:
        from watchfiles import PythonFilter, awatch

        try:
            async for found in awatch(self._root, watch_filter=PythonFilter(), debounce=DEBOUNCE_MILLISECONDS, step=50):
                self._found.put_nowait({path for _, path in found})
        except (OSError, RuntimeError) as error:  # no such folder, or no more watches to be had
            logging.getLogger("torpor.dev").warning("changes are not seen: %s", error)

    async def change(self, *, any_file: bool = False) -> str:
        """Return the next file of the app that changes; with `any_file` any Python file of the folder."""
        while True:
            changed = await self._found.get()
            loaded = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
            for path in sorted(changed):
                if any_file or path in loaded:
                    return str(Path(path).relative_to(self._root))

    async def until(self, other: asyncio.Task[Any], *, any_file: bool = False) -> str:
        """Return what changed, or an empty text if `other` was done first."""
        change = asyncio.create_task(self.change(any_file=any_file))
        await asyncio.wait([other, change], return_when=asyncio.FIRST_COMPLETED)
        if change.done():
            return await change
        change.cancel()
        return ""

    def close(self) -> None:
        """Stop watching."""
        if self._watching is not None:
            self._watching.cancel()


async def _broken(place: str, watch: Watch, screen: Screen, *, as_json: bool) -> int | None:
    """Wait for the next change: code that cannot be loaded works on nothing."""
    said = f"{place.partition(':')[0]} cannot be loaded; runs stay asleep until it changes"
    _say(screen, screen.out, said, "broken", as_json=as_json)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    changed = await watch.until(asyncio.create_task(stopped.wait()), any_file=True)
    if not changed:
        return INTERRUPTED
    os.environ[RELOADED] = changed
    return None
