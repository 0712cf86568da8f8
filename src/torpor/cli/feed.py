"""What happens to runs in this process, a line each as it happens: `09:12:04 ● greet-7Q3D  awake`."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from torpor import clock
from torpor.cli.documents import iso, write
from torpor.cli.screen import clean
from torpor.cli.spoken import clock_time, moment
from torpor.core.ids import wait_name
from torpor.core.run import State
from torpor.core.wait import WaitKind
from torpor.engine.queries.fleet import first_line
from torpor.engine.queries.people import why_of
from torpor.engine.queries.spoken import duration, wait_words
from torpor.errors import StoreError, TorporError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import IO

    from torpor.cli.screen import Screen
    from torpor.client import Client
    from torpor.store.rows import WaitRow
    from torpor.worker.roles import Executor

LATE_MICROS = 5_000_000
"""A run that is taken up so long after its moment is said to be late."""


class Said(NamedTuple):
    """A line: when it happened, its display word, the run, the text, what can be pasted, and the wait."""

    at: int
    word: str
    name: str
    text: str
    hint: str
    wait: str


class Feed:
    """Listens to a worker's events. Says lines on a screen, or JSON lines on a stream."""

    def __init__(
        self,
        client: Client,
        screen: Screen,
        *,
        lines: IO[str] | None = None,
        only: str = "",
        failures: bool = False,
        held: bool = False,
    ) -> None:
        """Begin. With `lines` it writes JSON there; with `only` it tells of one run, and with `failures` of all that fail.

        What a `held` feed has to say waits for `release`.
        """
        self._client = client
        self._screen = screen
        self._lines = lines
        self._reading: set[asyncio.Task[None]] = set()
        self._failures = failures
        self._held: list[Said] | None = [] if held else None
        self.only = only
        self.lost: list[str] = []
        """Runs that were let go without being given back."""
        self.rests = asyncio.Event()
        """Set when a run was put away: it may wait for a person."""
        self.sink: Callable[[Said], bool] = _not_shown
        """What may show a line in its own way; then it is not written."""

    def heard(self, event: str, executor: Executor, state: State) -> None:
        """Take an event of the worker: a plain callback of its loop."""
        open_waits = [row for row in executor.rows.values() if row.answered_at is None]
        people = [row for row in open_waits if row.kind.for_person]
        if event == "left" and state is State.WAITING:
            self.rests.set()
        if event == "lost":
            self.lost.append(executor.name)
        if self.only not in {"", executor.name} and not (self._failures and event == "left" and state is State.FAILED):
            return
        if event == "awake":
            self._say("running", executor.name, _awake(executor))
        elif event == "lost":
            self._say("failed", executor.name, "let go: another worker goes on with it")
        elif state.final:
            self._later(self._ended(executor.name, state))
        elif state is State.READY:
            self._say("ready", executor.name, "given back, ready")
        elif people:
            self._later(self._asked(executor.name, people[0]))
        else:
            self._say("asleep", executor.name, _asleep(open_waits))

    def _later(self, reading: Any) -> None:
        task = asyncio.get_running_loop().create_task(reading)
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def finish(self) -> None:
        """Say what is still to be said."""
        while self._reading:
            await asyncio.wait(self._reading)

    async def _ended(self, name: str, state: State) -> None:
        try:
            line = await self._client.get(name)
        except StoreError:
            self._say(state.word, name, state.word)
            return
        self._say(state.word, name, f"{state.word}{': ' if line.reason else ''}{line.reason}")

    async def _asked(self, name: str, row: WaitRow) -> None:
        """Say what a person is asked, and of an unknown effect why."""
        wait = wait_name(row.run_id, row.seq)
        text = f"needs you: {first_line(row.title)}"
        if row.kind is WaitKind.ATTENTION:
            with suppress(TorporError):  # decided meanwhile, or the store is away
                text += why_of(await self._client.wait(wait))
        self._say("needs you", name, text, hint=f"torpor inbox {wait}", wait=wait)

    def release(self) -> None:
        """Say what was held, and from now on everything at once."""
        held, self._held = self._held or (), None
        for said in held:
            self._write(said)

    def _say(self, word: str, name: str, text: str, *, hint: str = "", wait: str = "") -> None:
        said = Said(clock.wall(), word, name, text, hint, wait)
        if self._held is not None:
            self._held.append(said)
        else:
            self._write(said)

    def _write(self, said: Said) -> None:
        if self.sink(said):
            return
        if self._lines is None:
            self._screen.say(self.line(said))
        else:
            self._document(said, self._lines)

    def line(self, said: Said) -> str:
        """Return a line as people read it."""
        at, word, name, text, hint, _ = said
        after = f"   {hint}" if hint else ""
        room = self._screen.width - len(f"{clock_time(at)} x {name}  {after}")
        fitted = self._screen.fit(clean(text), max(room, 20))
        painted = self._screen.state(word, fitted) if word in {"needs you", "failed"} else fitted
        return f"{clock_time(at)} {self._screen.glyph(word)} {name}  {painted}{after}"

    @staticmethod
    def _document(said: Said, lines: IO[str]) -> None:
        more = {"wait": said.wait} if said.wait else {}
        told = {"at": iso(said.at), "event": said.word, "run": said.name, "text": said.text, **more}
        write(told, lines, line=True)


def _not_shown(said: Said) -> bool:
    del said
    return False


def _awake(executor: Executor) -> str:
    due_at = executor.run.due_at
    if executor.run.epoch <= 1 or due_at is None:
        return "awake"
    late = executor.worker.now() - due_at
    return f"awake, {duration(late)} after it was due, from where it was" if late >= LATE_MICROS else "awake"


def _asleep(open_waits: Sequence[WaitRow]) -> str:
    """Return what a run sleeps for: the moment if it is only a timer, else the words, and until when."""
    due = [row.due_at for row in open_waits if row.due_at is not None]
    titles = sorted({wait_words(first_line(row.title)) for row in open_waits if row.kind is not WaitKind.TIMER})
    until = f" until {moment(min(due), clock.wall())}" if due else ""
    return f"asleep{': ' if titles else ''}{' or '.join(titles)}{until}"
