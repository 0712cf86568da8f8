"""Who may ask what of whom inside the worker: each part as the others see it.

An executor is made of parts (turn, progress, effects, commits) that call each other in both directions; the arrows between
their files still go one way, because each knows only the role of the others. A part's own file has the whole of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections import deque
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from torpor.core.commit import NewMessage, Proposal
    from torpor.core.effect import Gate as Verdict
    from torpor.core.effect import Safety
    from torpor.core.journal import Entry, Stored
    from torpor.core.lease import Lease
    from torpor.core.replay import Record
    from torpor.core.run import State
    from torpor.core.stream import PartKind
    from torpor.core.wait import Open, Signal, WaitKind
    from torpor.engine.cancels import ToUndo
    from torpor.engine.commit import Reply
    from torpor.engine.family import Joinable
    from torpor.errors import LeaseLost, StoreError
    from torpor.sdk.app import Flow
    from torpor.sdk.loop import FlowLoop
    from torpor.sdk.port import Kept, Request
    from torpor.sdk.steps import Definition
    from torpor.store.protocol import Store
    from torpor.store.rows import RunRow, WaitRow
    from torpor.worker.bodies import Bodies, Secrets
    from torpor.worker.call import Call
    from torpor.worker.calls import Calls
    from torpor.worker.committer import Committer
    from torpor.worker.draft import Draft
    from torpor.worker.parts import Arrivals, Children, Effects, Questions, Spending
    from torpor.worker.standing import Standing
    from torpor.worker.streams import Streams
    from torpor.worker.tracing import Stretch
    from torpor.worker.voice import Voice


class Guests(Protocol):
    """The guests of a turn."""

    @property
    def busy(self) -> bool:
        """Whether one does something of its own."""


class Turn(Protocol):
    """A turn, to the executor's other parts."""

    turn: int
    loop: FlowLoop
    ahead: asyncio.TimerHandle | None
    """Set while a guest has been given what is not durable yet."""
    open: dict[str, Request]
    notes: list[Entry]
    unbegun: dict[int, tuple[str, str]]

    @property
    def guests(self) -> Guests | None:
        """Its guests, if it ever had one."""


class Progress(Protocol):
    """The calls of a turn, to the turn, to the effects, and to who does things beside the executor."""

    attempts: dict[str, int]
    made_again: dict[str, int]
    pending: list[Call]
    steps: dict[str, Call]
    waiting: dict[str, Open]

    @property
    def busy(self) -> bool:
        """Whether something other than a wait is under way."""

    @property
    def children(self) -> Children:
        """The starts and joins of children among them."""

    @property
    def waits(self) -> bool:
        """Whether any wait is open."""

    def retry(self, key: str) -> None:
        """Try a call again whose pause is over."""

    def open_waits(self) -> list[Open]:
        """Return the open waits in the order they were opened."""

    def name_of(self, running: asyncio.Task[Any]) -> str:
        """Return the name of the call that runs as this task, or nothing."""

    @property
    def effects(self) -> Effects:
        """The effects among them."""

    @property
    def spending(self) -> Spending:
        """The calls about budgets and rates among them."""

    @property
    def questions(self) -> Questions:
        """The questions among them."""

    @property
    def arrivals(self) -> Arrivals:
        """Callbacks, events and requests among them."""

    def begin(self, request: Request, record: Record | None) -> None:
        """Put a call where the journal says it was, or begin it."""

    def withdrawn(self, request: Request) -> None:
        """Take back a call the code no longer waits for."""

    def acts(self, request: Request) -> bool:
        """Whether a step or effect has begun and not ended."""

    def interrupted(self, request: Request) -> None:
        """Take back a call that somebody interrupts."""

    def pauses(self, request: Request, record: Record | None) -> bool:
        """Whether failed attempts on record make it wait."""

    def run(self, call: Call) -> None:
        """Run the author's function."""

    def succeeded(self, request: Request, result: Any, attempt: int) -> None:
        """Record what a call gave back."""

    def failed(self, call: Call, error: BaseException) -> None:
        """Take a failed attempt."""

    def again_or_failed(self, call: Call, definition: Definition, error: BaseException) -> None:
        """Try a failed call again later, or record that it failed for good."""

    def fail(self, key: str, error: BaseException, attempts: int) -> None:
        """Record that a call failed for good."""


class Stream(Protocol):
    """What a run emits and shows, to who lets it."""

    def voice(self, key: str) -> Voice:
        """Return the voice of an attempt that begins."""

    def from_flow(self, key: str, kind: PartKind, said: str | bytes) -> None:
        """Take what the flow emitted, to be written by the commit of the entry with this key."""

    def show(self, body: bytes) -> None:
        """Overwrite what the run shows of itself."""


class Commits(Protocol):
    """An executor's commits, to its other parts."""

    draft: Draft

    @property
    def stream(self) -> Stream:
        """What the run emits and shows."""

    def record(self, entry: Entry) -> None:
        """Put an entry into the next commit."""

    def message(self, message: NewMessage) -> None:
        """Put a message to another run into the next commit."""

    def open_wait(self, kind: WaitKind, due_at: int | None, title: str, *, matches: int | None = None) -> int:
        """Put a wait that keeps its slot into the next commit; return that."""

    def withdraw(self, slot: int) -> None:
        """Take a person's wait back."""

    def unrecorded(self) -> list[Entry]:
        """Return the entries that nobody acknowledged, and a few that were just before."""

    @property
    def under_way(self) -> Proposal | None:
        """The commit that is under way."""

    @property
    def in_flight(self) -> bool:
        """Whether a commit is under way."""

    @property
    def pending(self) -> bool:
        """Whether one is under way, or about to be."""

    def submit(self) -> None:
        """Ask for a flush."""

    def alone(self, send: Callable[[], None], *, acts: bool = False) -> None:
        """Let `send` build and send the next commit by itself."""

    def hold(self, quiet: Callable[[], None]) -> None:
        """Send nothing more before `release`, and call `quiet` once nothing is under way."""

    def release(self) -> None:
        """Send again."""

    def build(self, *, alone: bool = False) -> Proposal | None:
        """Return what is to be committed now."""

    def committed(self, proposal: Proposal, reply: Reply) -> None:
        """Take the store's reply."""

    def broken(self, proposal: Proposal, error: Exception) -> None:
        """Take an error of this commit's own."""

    def take_back(self) -> None:
        """Take the last proposal back."""

    def forget_alone(self) -> None:
        """Forget the transactional effects that were about to begin."""


class Executor(Protocol):
    """An executor, to its parts."""

    name: str
    run: RunRow
    lease: Lease
    flow: Flow
    version: int
    head: int
    seen: int
    unread: list[Signal]
    interrupts: bool
    undoing: bool
    bodies: Bodies
    rows: dict[int, WaitRow]
    kept: dict[str, Kept]
    """What guests keep from turn to turn."""
    arrived: deque[tuple[Entry, int]]
    """Outcomes that are to be handed over to the body, and loop time when they are."""
    consuming: str | None
    behind: Proposal | None
    """The commit that was under way when it was chosen what is consumed."""
    spends: bool
    cancelling: bool
    draining: bool
    """Whether it is given back: nothing of it begins any more."""
    ended: bool
    trace: Stretch | None

    @property
    def worker(self) -> Worker:
        """Its worker."""

    @property
    def turn(self) -> Turn | None:
        """The turn it drives now."""

    @property
    def progress(self) -> Progress:
        """The calls of that turn."""

    @property
    def commits(self) -> Commits:
        """Its commits."""

    def go_on(self) -> None:
        """Let the body run until it is idle, then see what is next."""

    def see_next(self) -> None:
        """Ask what is to be done now."""

    def resubmit(self) -> None:
        """Send again what is gathered, or see what is next."""

    def committed(self, proposal: Proposal, reply: Reply) -> None:
        """Take what became durable."""

    def refused(self, reply: Reply) -> None:
        """Take that nothing was written."""

    def lost(self, why: str) -> None:
        """Stop: this executor no longer owns the run."""

    def unreadable(self, error: StoreError) -> None:
        """Put the run away: something large that it needs cannot be read."""


class Linger(Protocol):
    """A run that lingers, to its worker."""

    def cut(self) -> None:
        """See again whether to stay: the worker has no room any more."""


class Gate(Protocol):
    """The gate, to effects."""

    def ask(self, executor: Executor, safety: Safety, answer: Callable[[Verdict], None]) -> None:
        """Ask whether an effect of a run may start."""


class Outside(Protocol):
    """What is done beside the executors."""

    def keep(self, run_id: int, call: Call) -> None:
        """Remember an effect that goes on acting although its executor ended."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside the executors; an error in it is logged."""

    def read_rows(
        self, executor: Executor, field: str, first: int, most: int, here: Callable[[list[bytes] | Exception], None]
    ) -> None:
        """Read rows of a run's state."""

    def deliver(self) -> None:
        """Take messages that were just committed to their runs."""

    def ask_joinable(
        self, executor: Executor, children: Sequence[int], here: Callable[[Mapping[int, Joinable] | StoreError], None]
    ) -> None:
        """Ask which runs may be joined."""

    def ask_verify(self, executor: Executor, call: Call, left: Stored | BaseException) -> None:
        """Ask `verify` what became of an attempt."""

    def transactional(self, executor: Executor, call: Call) -> None:
        """Run a transactional effect inside a commit of its own."""

    def to_undo(self, executor: Executor, here: Callable[[ToUndo | StoreError], None]) -> None:
        """Read what a cancelled run is to undo."""

    def settle_late(self, executor: Executor, call: Call, result: Any, error: BaseException | None) -> None:
        """Settle the unknown that an attempt left behind."""


class Worker(Protocol):
    """A worker, to its executors and their parts."""

    number: int
    name: str
    token_key: str
    loop: asyncio.AbstractEventLoop
    store: Store
    log: Any
    secrets: Secrets
    standing: Standing
    committer: Committer
    streams: Streams
    calls: Calls
    others_wait: bool
    linger_seconds: float
    lingering: set[Linger]

    @property
    def room(self) -> bool:
        """Whether another run could be taken up."""

    @property
    def gate(self) -> Gate:
        """The last check before an effect."""

    @property
    def outside(self) -> Outside:
        """What is done beside the executors."""

    def now(self) -> int:
        """Return the store's time, as far as it is known to have come."""

    def program_number(self, program: int) -> int:
        """Return the number of the present version of a program that is served, under the same tag."""

    def saw_time(self, at: int) -> None:
        """Take note of the store's time, just read."""

    def look_at(self, executor: Executor) -> None:
        """Read soon what the store has for a run."""

    def left(self, executor: Executor, state: State, proposal: Proposal) -> None:
        """Take note that a run was put away or ended."""

    def dropped(self, executor: Executor, error: LeaseLost) -> None:
        """Take note that a run was lost."""


__all__ = [
    "Commits",
    "Executor",
    "Gate",
    "Linger",
    "Outside",
    "Progress",
    "Stream",
    "Turn",
    "Worker",
]
