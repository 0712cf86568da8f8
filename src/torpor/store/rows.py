"""The rows that pass between the engine and a store. Plain tuples: what the tables hold, nothing decided.

Moments are microseconds UTC (the store's clock), bodies are encoded values (`values.encode`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from torpor.core.budget import Lost, Short, Standing
from torpor.core.commit import MessageKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.core.journal import Entry, Stored
    from torpor.core.lease import Lease
    from torpor.core.run import Flag, State
    from torpor.core.schedule import Fate
    from torpor.core.wait import Signal, WaitKind


class ProgramRow(NamedTuple):
    """A program as one store knows it: name, version *and* tag under one number. `source`: its code, `module:qualname`."""

    id: int
    name: str
    version: int
    source: str
    tag: str = ""


class LineRow(NamedTuple):
    """A line: at most `places` of its runs hold a place; `held` do, and `queued` says whether others wait."""

    id: int
    name: str
    places: int
    held: int
    queued: bool


class PlaceRow(NamedTuple):
    """Where a run stands in its line: `held` is 0 while it waits, 1 with a place, 2 before it is due."""

    run_id: int
    line: int
    prio: int
    held: int


class InLine(NamedTuple):
    """What people see of a run in a line: `ahead` runs hold a place or come before it."""

    line: str
    places: int
    held: bool
    ahead: int


class CompensationRow(NamedTuple):
    """What is to be done if a run is cancelled: registered by entry `n`, taken back by `ref`."""

    run_id: int
    n: int
    ref: str
    body: bytes


class NewRun(NamedTuple):
    """A run to be inserted: `ready`, or `waiting` until `due_at`. `body` is its first state."""

    program: int
    tenant: int
    body: bytes
    priority: int = 0
    parent: int | None = None
    due_at: int | None = None


class RunRow(NamedTuple):
    """A row of `runs`. While the run is `running` its head lives on its lease."""

    id: int
    created_at: int
    due_at: int | None
    parent: int | None
    tenant: int
    program: int
    epoch: int
    head: int
    inbox: int
    seen: int
    branch: int
    state: State
    priority: int
    takeovers: int
    stalls: int
    flags: Flag


class StateRow(NamedTuple):
    """The current checkpoint: the entry that made it (0: the run's input), when, which turn follows it."""

    run_id: int
    seq: int
    at: int
    turn: int
    body: bytes


class WaitRow(NamedTuple):
    """A wait. Open while `answered_at` is None; a slot is used again once its wait is over."""

    run_id: int
    slot: int
    seq: int
    kind: WaitKind
    due_at: int | None
    answered_at: int | None
    title: str
    answer: bytes | None
    over: bool = False
    need: int = 0
    """How many of its children must still end before it wakes the run (`core.family`)."""
    members: bytes | None = None
    """The children it is for."""
    matches: int | None = None
    """Of a wait for an event, when it is written: what its index looks for."""


class WorkerRow(NamedTuple):
    """A worker process. `life` names its life lock, `host` the machine and boot it runs on."""

    id: int
    name: str
    host: str
    pid: int
    life: str
    started_at: int
    seen_at: int
    programs: str


class NewWorker(NamedTuple):
    """A worker that starts."""

    name: str
    host: str
    pid: int
    life: str
    programs: str


class NewSignal(NamedTuple):
    """A signal to be kept for a run; a `key` that the run has seen makes it a duplicate."""

    run_id: int
    name: str
    body: bytes
    key: str | None = None
    sender: str | None = None
    program: str = ""
    """The program's name by which the run was addressed, if it was: for a run of another one nothing is kept (NO_RUN)."""


class Kept(Enum):
    """What became of a signal."""

    NEW = auto()
    DUPLICATE = auto()
    """Its key was seen before: nothing changed."""
    FINAL = auto()
    """The run has ended: nothing was kept."""
    NO_RUN = auto()


class MessageRow(NamedTuple):
    """A message in the outbox."""

    id: int
    run_id: int
    target: int
    name: str
    key: str
    body: bytes
    kind: MessageKind = MessageKind.SIGNAL
    detail: str = ""


class ViewRow(NamedTuple):
    """What a run shows of itself, since when."""

    run_id: int
    at: int
    body: bytes


class Append(NamedTuple):
    """A fenced append: applied only if the lease carries token, epoch and head (and no cancel, if it forbids that)."""

    run_id: int
    token: int
    epoch: int
    head: int
    forbids_cancel: bool
    entries: Sequence[Entry]
    taken: Sequence[int] = ()
    """Numbers of the signals that the entries consume, taken in the same statement."""


class Leave(NamedTuple):
    """A fenced append that ends the stretch: the lease goes, the run becomes `after`.

    `after` WAITING means: `core.run.parked_as` over the run's own `inbox`, `seen` and cancel flag, in the same statement.
    `flags` are the run's flags afterwards, beside those that stay (`core.run.LASTING`).
    """

    append: Append
    after: State
    seen: int
    due_at: int | None
    flags: Flag


class Left(NamedTuple):
    """A run that was put away: what it is now, and its flags."""

    state: State
    flags: Flag


class FollowUp(NamedTuple):
    """A run whose end or cancellation others must learn of. Its children up to number `after` have been told."""

    run_id: int
    after: int


class RunChange(NamedTuple):
    """A change to a run's row, made under its lock. None leaves a column alone; `inbox` and `takeovers` are added."""

    id: int
    state: State | None = None
    due_at: int | None = None
    head: int | None = None
    program: int | None = None
    flags: Flag | None = None
    inbox: int = 0
    takeovers: int = 0
    stalls: int | None = None
    epoch: int | None = None
    branch: int | None = None


@dataclass(slots=True)
class Claimed:
    """Everything a worker needs to go on with a run, read in the claim's own round trip."""

    run: RunRow
    lease: Lease
    state: StateRow
    entries: list[Stored] = field(default_factory=list)
    waits: list[WaitRow] = field(default_factory=list)
    unread: list[Signal] = field(default_factory=list)


class Claim(NamedTuple):
    """What a worker asks for: ready runs of these programs, at most `limit`, of the next tenant after `after_tenant`."""

    worker: int
    programs: list[int]
    limit: int
    token: int
    lease_micros: int
    after_tenant: int = 0


class RunFilter(NamedTuple):
    """Which runs a person wants to see. Newest first, below `before`."""

    states: list[State] | None = None
    programs: list[int] | None = None
    before: int | None = None
    limit: int = 50


class ScheduleRow(NamedTuple):
    """A schedule. `rule` and `body` are encoded; `next_at` is the next slot, `due_at` when it starts (None: paused, or none).

    `revision` grows with every change: whoever planned on an older row finds that out. `since_at` is where intervals begin.
    """

    id: int
    name: str
    program: str
    rule: str
    body: bytes
    tenant: str
    priority: int
    revision: int
    created_at: int
    changed_at: int
    since_at: int
    next_at: int | None
    due_at: int | None
    paused_at: int | None = None
    paused_by: str | None = None


class SlotRow(NamedTuple):
    """What became of a slot, or of `many` slots from `slot_at` to `last_at`. `at` is when that was settled."""

    schedule: int
    slot_at: int
    last_at: int
    at: int
    many: int
    fate: Fate
    reason: str
    run_id: int | None = None
    extra: bool = False
    """Asked for by a person: no slot of the rule's."""


class NewBudget(NamedTuple):
    """A budget to be written: of a run, or with a name. `most` None: no limit. `parent` is the budget above it."""

    run_id: int | None = None
    name: str | None = None
    parent: int | None = None
    most: int | None = None


class BudgetRow(NamedTuple):
    """A budget. Amounts are micro-units (`core.money`)."""

    id: int
    run_id: int | None
    name: str | None
    parent: int | None
    most: int | None
    spent: int
    held: int
    short: Short

    @property
    def standing(self) -> Standing:
        """How it stands."""
        return Standing(self.most, self.spent, self.held)


class BudgetChange(NamedTuple):
    """A change to a budget that this transaction has locked: `spent`, `held` and `more` (of the limit) are added."""

    id: int
    spent: int = 0
    held: int = 0
    more: int = 0
    short: Short | None = None


class HoldRow(NamedTuple):
    """A reservation that is not settled: of which run and call, how much, and in which budgets."""

    run_id: int
    key: str
    amount: int
    lost: Lost
    budgets: tuple[int, ...]

    @property
    def kept(self) -> int:
        """How much of it counts as spent if it is never settled."""
        return self.amount if self.lost is Lost.SPENT else 0


class ShortRow(NamedTuple):
    """A call that waits for a budget, since `at`."""

    run_id: int
    key: str
    budget: int
    at: int
    wants: int


class BucketRow(NamedTuple):
    """A rate bucket: its limit as it was asked for last, and the chains of `core.rate`."""

    name: str
    most: int
    per: int
    burst: int
    promised: int = 0
    used: int = 0
    late: int = 0
