"""One turn of one run: the body on its own loop, the journal answering it, and what it still waits for.

The order of everything the body meets is the journal's. Replay hands it the recorded results one at a time; afterwards
every new result is handed over in the order in which its entry was committed. Calls that the journal cannot answer are
held until replay is through, so nothing starts before a divergence is found.

Reads of `Rows` are the exception: what they return cannot change, so they are not journaled. While one is under way
nothing else is handed over, which gives it a fixed place in the order.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from torpor.core.journal import Entry, Kind, Stored
from torpor.core.replay import Call, CallKind, Record, Replay, shown
from torpor.core.token import token
from torpor.errors import BudgetExceeded, Diverged, Interrupted, StepFailed, StoreError
from torpor.sdk.flow import begin, rows_of
from torpor.sdk.loop import FlowLoop
from torpor.sdk.port import Request
from torpor.sdk.rows import attach
from torpor.store import values
from torpor.worker import children
from torpor.worker.guests import Guests
from torpor.worker.lines import struck_fields
from torpor.worker.voice import checked, spoken

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Sequence

    from torpor.core.stream import PartKind
    from torpor.sdk.app import Flow
    from torpor.sdk.port import Guest, Kept
    from torpor.worker.roles import Executor


class Turn:
    """The port that one turn's `Context` talks to."""

    def __init__(
        self, executor: Executor, flow: Flow, number: int, at: int, state: Any, entries: Sequence[Stored]
    ) -> None:
        """Prepare the body at the checkpoint's time; nothing runs before `advance`."""
        self._executor = executor
        self._worker = executor.worker
        self._bodies = executor.bodies
        self.run_id = executor.name
        self.turn = number
        self.loop = FlowLoop(now=at)
        self.replaying = True
        self.open: dict[str, Request] = {}
        """Calls that were made and not resolved, by key, in the order they were made."""
        self.records: dict[str, Record] = {}
        self.notes: list[Entry] = []
        self.unbegun: dict[int, tuple[str, str]] = {}
        """Values drawn since the last commit."""
        self.diverged: Diverged | None = None
        self._replay = Replay(entries)
        self._fresh = not entries
        self._timers = 0
        self.guests: Guests | None = None
        self.ahead: asyncio.TimerHandle | None = None
        """Set while a guest has been given what is not durable yet (`worker.ahead`)."""
        self._known: deque[Stored] = deque()
        """What the journal answers to calls of guests, to be handed over next."""
        self.reads = 0
        """How many reads of rows are under way; nothing is handed over meanwhile."""
        self._unheard: list[tuple[str, PartKind, str | bytes]] = []
        self._shown: bytes | None = None
        for field, rows in rows_of(state):
            attach(rows, field, self._reader(field))
        self.main = begin(flow, self, state)

    # what the context asks (sdk.port.Port)

    def ask(self, request: Request) -> None:
        """Take a call: know its key, and begin it unless the journal is still answering."""
        if request.kind in _SHOWN:  # as it is now, whatever the code does to its objects afterwards (G10)
            body = values.encode(request.values, path=f"what {request.name} shows")
            request.values = self._bodies.decode(body)
        content = request.values
        named = content and content != _NO_ARGUMENTS
        digest = values.digest(content, path=f"the arguments of {request.name}") if named else b""
        asked = self._replay.ask(Call(request.kind, request.name, digest, request.step_id))
        request.key = asked.key
        self.open[asked.key] = request
        if asked.record is not None:
            self.records[asked.key] = asked.record
        if asked.diverged_from is not None and self.diverged is None:
            self.diverged = self._divergence(asked.diverged_from, asked=_told(asked.key, content))
        if not self.replaying and self.diverged is None and not _spare(asked.record):
            if asked.record is not None and asked.record.resolved is not None:
                asked.record.delivered = True
                self._known.append(asked.record.resolved)  # only a guest asks so late for what is on record
            else:
                self._executor.progress.begin(request, asked.record)

    def withdraw(self, request: Request) -> None:
        """Forget a call the code no longer waits for; what was recorded of it is skipped."""
        if not self.replaying and self.open.pop(request.key, None) is not None:
            self._executor.progress.withdrawn(request)

    def has(self, kind: CallKind, name: str, step_id: str) -> bool:
        """Whether an earlier stretch recorded the answer to a call that has a `step_id`."""
        return self._replay.has(Call(kind, name, b"", step_id))

    def value(self, name: str, draw: Callable[[], Any]) -> Any:
        """Return a recorded value, or draw one and record it with the next commit."""
        asked = self._replay.ask(Call(CallKind.VALUE, name))
        if asked.record is not None and asked.record.notes:
            return self._bodies.decode(asked.record.notes[0].body)
        body = self._bodies.encode(draw(), f"ctx.{name}()")
        self.notes.append(Entry(Kind.NOTE, asked.key, body))
        return self._bodies.decode(body)

    def heard(self, name: str) -> bool:
        """Whether a signal of this name lies unread, as it was found the first time: only a yes is recorded."""
        asked = self._replay.ask(Call(CallKind.VALUE, f"heard {name}"))
        if asked.record is not None:
            return True
        if not self._replay.silent or all(signal.name != name for signal in self._executor.unread):
            return False
        if self.replaying and self._replay.unasked_questions():
            return False  # it was a no then, and what a person was asked after it stays, open or answered (G10)
        self.notes.append(Entry(Kind.NOTE, asked.key, None))
        return True

    def emit(self, part: object, step_id: str = "") -> None:
        """Put a part into the run's stream, once: a note says that it was, and both are durable together or not at all."""
        strike = self._worker.secrets.strike
        kind, said = spoken(part, strike)
        asked = self._replay.ask(Call(CallKind.EMIT, "emit", step_id=step_id))
        if asked.record is None or not asked.record.notes:
            self._unheard.append((asked.key, kind, said))
            self._speak()

    def struck(self, text: str) -> str:
        """Return a text without secrets."""
        return self._bodies.struck(text)

    def show(self, value: object) -> None:
        """Overwrite what people see of the run now; replay ends with what was shown last."""
        self._shown = checked(values.encode(value, path="the shown value"), self._worker.secrets.strike, "show")
        self._speak()

    def _speak(self) -> None:
        """Say and show what the body wants to; not while replay may still find that it diverged (G11)."""
        if self.replaying:
            return
        commits = self._executor.commits
        for key, kind, said in self._unheard:
            commits.stream.from_flow(key, kind, said)
            commits.record(Entry(Kind.NOTE, key, None))
        self._unheard.clear()
        if self._shown is not None:
            commits.stream.show(self._shown)
            self._shown = None

    def token(self, request: Request) -> str:
        """Return a callback's token: computed, the same in every replay, and stored nowhere."""
        text = token(self._executor.progress.arrivals.named(request), self._worker.token_key)
        self._bodies.hide(text, f"[token of {request.name}]")
        return text

    def now(self) -> int:
        """Return the store's time as the worker knows it."""
        return self._worker.now()

    def fetch(self, field: str, first: int, most: int) -> asyncio.Future[list[Any]]:
        """Read rows; nothing else is handed over until they are here."""
        future: asyncio.Future[list[Any]] = self.loop.future()
        self.reads += 1

        def here(rows: list[bytes] | Exception) -> None:
            self.reads -= 1
            try:
                if isinstance(rows, Exception):
                    raise rows
                if not future.done():
                    future.set_result([self._bodies.decode(body) for body in rows])
            except StoreError as error:
                self._executor.unreadable(error)
                return
            except Exception as error:  # noqa: BLE001 - a stored value that cannot be read is the code's to see
                if not future.done():
                    future.set_exception(error)
            self._executor.go_on()

        self._worker.outside.read_rows(self._executor, field, first, most, here)
        return future

    @property
    def kept(self) -> dict[str, Kept]:
        """What guests keep while this worker goes on with the run."""
        return self._executor.kept

    def outside(self, guest: Guest, work: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        """Run a coroutine on the worker's loop; from now on the turn is free (`worker.guests`)."""
        if self.guests is None:
            self.guests = Guests(self._executor)
        self.replaying = False
        return self.guests.begin(self.loop, guest, work)

    def enter(self, call: Callable[[], object]) -> None:
        """Call something on the body's loop, for a guest."""
        if self.guests is not None:
            self.guests.enter(self.loop, call)

    def forget_unasked(self) -> bool:
        """Close questions that no guest has asked this time: consent to something else is consent to nothing (G10)."""
        commits = self._executor.commits
        if self.guests is not None:
            for seq in self._replay.unasked_questions():
                self._executor.progress.questions.forget(seq)
            if commits.draft.entries:
                commits.submit()
                return True
        return False

    def _reader(self, _field: str) -> Callable[[str, int, int], asyncio.Future[list[Any]]]:
        return self.fetch

    def secret(self, name: str) -> str:
        """Resolve a secret."""
        return self._worker.secrets.resolve(name)

    def log(self, level: str, event: str, fields: dict[str, Any]) -> None:
        """Write a line unless it was written before: not while the journal of this turn is still answering."""
        if not self.replaying or self._fresh:
            struck = self._bodies.struck  # what the run hides as well: tokens of its callbacks
            said = struck_fields({**fields, "event": event}, struck)
            getattr(self._worker.log, level)(run=self.run_id, **said)

    # what the executor asks

    def advance(self) -> None:
        """Let the body run until it is idle, and while the journal has answers, give them one at a time."""
        while True:
            self.loop.pump()
            if self.loop.timers_created:
                self._take_timers()
            if self._replay.spares and self._gives_spare():
                continue
            if self._known and not self.reads:
                known = self._known.popleft()
                self.hand_over(known, known.at)
                continue
            if self.guests is not None and self.main.done():
                break
            if self.reads or not self.replaying:
                return
            record = self._replay.next()
            if record is None or record.resolved is None:
                break
            self.hand_over(record.resolved, record.resolved.at)
        left = self._replay.left_behind() if self.guests is None else self._replay.unasked()
        if left is not None and self.diverged is None:
            self.diverged = self._divergence(left, asked=self._asked_instead())
        if self.diverged is None and self.replaying:
            self._go_live()

    def _go_live(self) -> None:
        """Begin what the journal does not answer, and close what the code does not ask for any more."""
        for seq in self._replay.unasked_questions():
            self._executor.progress.questions.forget(seq)
        self.replaying = False
        self._speak()
        for request in list(self.open.values()):
            if not request.withdrawn and not _spare(self.records.get(request.key)):
                self._executor.progress.begin(request, self.records.get(request.key))
        withdrawn = [request for request in self.open.values() if request.withdrawn]
        for request in withdrawn:
            record = self.records.get(request.key)
            if record is not None and record.wait is not None:
                self._executor.progress.begin(request, record)  # people still see it: it is to be closed
            del self.open[request.key]
            self._executor.progress.withdrawn(request)

    def _gives_spare(self) -> bool:
        """Hand over a spare record that the code asks for; whether there was one."""
        spare = None if self.reads else self._replay.next_spare()
        if spare is not None:
            self.hand_over(spare, spare.at)
        return spare is not None

    def _take_timers(self) -> None:
        """Give each new timer of the body's loop a key, as any other call."""
        for timer in self.loop.timers:
            if timer.number > self._timers:
                self._timers = timer.number
                self.ask(Request(CallKind.TIMER, "", {}, self.loop.future(), timer=timer))
        for key, request in list(self.open.items()):
            if request.timer is not None and request.timer.cancelled:
                request.withdrawn = True
                if not self.replaying:
                    del self.open[key]
                    self._executor.progress.withdrawn(request)

    def hand_over(self, entry: Entry | Stored, at: int) -> None:
        """Give the body what resolved one of its calls; loop time moves to that of the entry's commit."""
        self.loop.advance(at)
        request = self.open.pop(entry.key or "", None)
        if request is None:
            return
        if request.timer is not None:
            if entry.kind is Kind.FAILURE:
                self._end_sleep(request, entry)
            elif not request.timer.cancelled:
                self.loop.fire(request.timer)
            return
        if request.future.done():
            return
        try:
            self._settle(request, entry)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - a stored value that cannot be read is the code's to see
            request.future.set_exception(error)

    def _end_sleep(self, request: Request, entry: Entry | Stored) -> None:
        """Raise in whoever sleeps that somebody interrupted."""
        sleeper = request.timer.entry.sleeper if request.timer is not None else None
        if sleeper is not None and not sleeper.done():
            sleeper.set_exception(failure_of("sleep", self._bodies.decode(entry.body), request.key))

    def _settle(self, request: Request, entry: Entry | Stored) -> None:
        value = self._bodies.decode(entry.body)
        if entry.kind is Kind.FAILURE:
            of_child = request.kind in _FAMILY and not value.get("interrupt")
            failed = (
                children.failure_of(value, request.key) if of_child else failure_of(request.name, value, request.key)
            )
            request.future.set_exception(failed)
        elif request.kind is CallKind.JOIN:
            request.future.set_result(children.settled(request, value))
        else:
            request.future.set_result(value)

    def _divergence(self, record: Record, *, asked: str) -> Diverged:
        intent = self._bodies.decode(record.intents[-1].body) if record.intents else {}
        recorded = _told(record.key, intent) if asked else shown(record.key)
        instead = f"asks for {asked}" if asked else "does not ask for it"
        message = f"turn {self.turn} recorded {recorded}, and the code {instead}"
        return Diverged(
            message, recorded=recorded, asked=asked, hint="deploy the code that recorded it, then answer --again"
        )

    def _asked_instead(self) -> str:
        return ", ".join(shown(key) for key in self.open if key not in self.records)

    def close(self) -> list[str]:
        """Close the body, and its guests; return what went wrong in it."""
        if self.guests is not None:
            self.guests.close()
        return self.loop.close_body()


def _spare(record: Record | None) -> bool:
    """Whether the journal answers a call out of its order: it was recorded on the way from a failure that was superseded."""
    return record is not None and record.spare


_SHOWN = frozenset({CallKind.APPROVAL, CallKind.ASK})
_FAMILY = frozenset({CallKind.SPAWN, CallKind.JOIN})
_NO_ARGUMENTS: dict[str, Any] = {"args": []}
_TOLD_LETTERS = 120


def _told(key: str, content: dict[str, Any]) -> str:
    """Return a call with its arguments, as far as there is room: the two sides of a divergence may differ in nothing else."""
    args = content.get("args")
    if not args:
        return shown(key)
    text = ", ".join(repr(values.plain(values.encode(arg))) for arg in args)
    return f"{shown(key)}({text if len(text) <= _TOLD_LETTERS else f'{text[:_TOLD_LETTERS]}...'})"


def failure_of(name: str, recorded: dict[str, Any], key: str) -> StepFailed | Interrupted | BudgetExceeded:
    """Return the error a flow sees for a failed or interrupted call: the same live and in replay."""
    error = _failure(name, recorded)
    error.call = key
    return error


def _failure(name: str, recorded: dict[str, Any]) -> StepFailed | Interrupted | BudgetExceeded:
    if recorded.get("interrupt"):
        reason = str(recorded.get("detail", ""))
        message = f"{name} was interrupted{f': {reason}' if reason else ''}"
        return Interrupted(message, reason=reason, unknown=bool(recorded.get("unknown")))
    kind, detail = str(recorded.get("kind", "")), str(recorded.get("detail", ""))
    if kind == BudgetExceeded.__name__ and "attempts" not in recorded:
        return BudgetExceeded(detail)
    attempts = int(recorded.get("attempts", 1))
    times = f" after {attempts} attempts" if attempts > 1 else ""
    hint = str(recorded.get("hint", ""))
    message = f"{name} failed{times}: {kind}: {detail}"
    return StepFailed(message, kind=kind, detail=detail, hint=hint, said=recorded.get("said"))
