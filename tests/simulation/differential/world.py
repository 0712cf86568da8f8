"""A history: the stores and the model in step, what leaseholders believe, what was done, and where everything stands.

Each operation is done by all of the stores, then by the model; replies are compared, then everything that is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tests.simulation.differential.projection import judge
from tests.simulation.differential.situations import COPIED, GONE, TAKEN_OVER, situation
from tests.simulation.differential.stores import Differs
from tests.simulation.model import KEPT, Model
from tests.simulation.model_shared import PROGRAM
from torpor.core.commit import Proposal
from torpor.core.journal import Entry, Kind
from torpor.engine import retention, runs
from torpor.errors import TorporError
from torpor.store.history_rows import RetentionRow
from torpor.store.rows import NewWorker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.simulation.differential.reading import Snapshot
    from tests.simulation.differential.stores import Stores
    from torpor.core.lease import Lease

TENANTS = ("default", "acme")
HOUR = 3_600_000_000
BEYOND = 1_000
"""So far above the highest number there is no run."""


class View(NamedTuple):
    """What a worker believes about a run that it claimed, now or once: a copy of it believes the same."""

    lease: Lease
    inbox: int
    turn: int
    point: int
    branch: int


class World:
    """One history on empty stores."""

    def __init__(self, stores: Stores) -> None:
        """Begin one: a program, two tenants, two workers."""
        self.stores, self.model = stores, Model()
        self.views: dict[int, list[View]] = {}
        self.sent: dict[int, list[tuple[Proposal, bool]]] = {}
        self.done: list[str] = []
        self.tokens = 100
        stores.empty()
        self.programs = self._same(runs.register, [(PROGRAM, 1, "m:shop")])
        self._same(lambda tx: tx.intern_tenants([*TENANTS]))
        self._same(retention.declare, [RetentionRow(PROGRAM, runs=KEPT, stream=HOUR, slots=HOUR)])
        self.workers = [self._same(_worker, name) for name in ("w1", "w2")]
        self.snapshot = stores.snapshot()

    def _same(self, op: Callable[..., Any], *args: Any) -> Any:
        said = self.stores.do(op, *args)
        assert said.error is None, said
        return said.reply

    @property
    def now(self) -> int:
        """The clock of the stores and of the model."""
        return self.stores.moment.at

    def advance(self, micros: int) -> None:
        """Let time pass, or go back."""
        self.stores.moment.at += micros
        self.stores.moment.advance(0)

    # doing

    def ask(self, judged: Callable[[Any], Any], told: Callable[[Any], Any], op: Callable[..., Any], *args: Any) -> Any:
        """Do an operation everywhere. Returns the reply, or the error that it was refused with.

        `judged` gets the stores' reply and does the model's part; `told` is the reply in the model's words.
        """
        said = self.stores.do(op, *args)
        refused = said.error if said.error is not None else said.reply if isinstance(said.reply, TorporError) else None
        self.model.now = self.now
        mine: Any = None
        try:
            expected = judged(None if refused is not None else said.reply)
        except TorporError as error:
            mine, expected = error, None
        if type(mine) is not type(refused):
            raise Differs(f"the model says {mine!r} {expected!r}, the stores {refused!r} {said.reply!r}")
        if refused is None and expected != told(said.reply):
            raise Differs(f"the model says {expected!r}, the stores say {told(said.reply)!r}")
        return refused if refused is not None else said.reply

    def only(self, op: Callable[..., Any], *args: Any) -> Any:
        """Do an operation that the model does not judge on all stores. Returns the reply, or the error."""
        said = self.stores.do(op, *args)
        self.model.now = self.now
        return said.error if said.error is not None else said.reply

    def check(self) -> None:
        """Compare everything that is stored."""
        self.snapshot = self.stores.snapshot()
        judge(self.model, self.snapshot)

    # where things stand

    def numbers(self) -> list[int]:
        """Every run, and a number that no run has."""
        return [*sorted(self.model.runs), self.model.last + BEYOND]

    def situation(self, number: int) -> str:
        """Where a run stands."""
        run = self.model.runs.get(number)
        return GONE if run is None else situation(run, self.now)

    def stands(self) -> set[str]:
        """Where runs stand now."""
        return {self.situation(number) for number in self.model.runs}

    def held(self) -> list[tuple[int, int]]:
        """What leaseholders believe: a run, and which view of it, the newest first."""
        return [(number, age) for number, views in self.views.items() for age in range(min(len(views), 3))]

    def view(self, target: tuple[int, int]) -> View:
        """A view."""
        return self.views[target[0]][-1 - target[1]]

    def held_situation(self, target: tuple[int, int]) -> str:
        """Where a run stands for somebody who holds, or held, its lease."""
        run, lease = self.model.runs.get(target[0]), self.view(target).lease
        if run is None or run["lease"] is None:
            return self.situation(target[0])
        if (run["lease"]["token"], run["lease"]["epoch"]) != (lease.token, lease.epoch):
            return TAKEN_OVER
        return self.situation(target[0]) if run["lease"]["head"] == lease.head else COPIED

    def waits(self, number: int, *, over: bool = False) -> list[tuple[int, dict[str, Any]]]:
        """The waits of a run by slot, oldest first."""
        run = self.model.runs.get(number, {"waits": {}})
        found = [(slot, wait) for slot, wait in run["waits"].items() if over or not wait["over"]]
        return sorted(found, key=lambda pair: int(pair[1]["seq"]))

    def slot(self, number: int) -> int:
        """A slot that no open wait of a run has."""
        taken = {slot for slot, _ in self.waits(number)}
        return next(slot for slot in range(len(taken) + 1) if slot not in taken)

    def unread(self, number: int) -> list[tuple[int, dict[str, Any]]]:
        """The unread signals of a run, oldest first."""
        signals = self.model.runs.get(number, {"signals": {}})["signals"]
        return sorted(((n, signal) for n, signal in signals.items() if signal["unread"]), key=lambda pair: int(pair[0]))

    def propose(self, view: View, /, *entries: Entry, **more: Any) -> Proposal:
        """What a worker with this view proposes."""
        lease = view.lease
        more = {"seen": view.inbox, **more}
        return Proposal(lease.run_id, lease.token, lease.epoch, lease.head, list(entries), **more)

    def moved(self, view: View, proposal: Proposal) -> None:
        """Remember what a worker believes after a commit that it was told of."""
        run, head = self.model.runs[proposal.run_id], proposal.head + len(proposal.entries)
        lease = view.lease._replace(head=head)
        seen = View(lease, view.inbox, run["turn"], run["point"], run["branch"])
        self.views[proposal.run_id].append(seen)

    # runs that something else than a start made

    def adopt(self, snapshot: Snapshot) -> list[int]:
        """Tell the model of runs that schedules started."""
        new = sorted(
            (row for row in snapshot["runs"] if row["id"] not in self.model.runs), key=lambda row: int(row["id"])
        )
        keys = {row["run_id"] for row in snapshot["slots"]}
        for row in new:
            assert row["id"] in keys, f"run {row['id']} came from nowhere"
            body = next(one["body"] for one in snapshot["states"] if one["run_id"] == row["id"])
            self.model.born(row["id"], tenant=row["tenant"], prio=row["prio"], body=body)
            self.model.keys[f"slot of {row['id']}"] = row["id"]
        return [row["id"] for row in new]

    def reached(self, before: Iterable[tuple[int, int]]) -> int:
        """Tell the model which runs got an event: those with a signal that was not there before."""
        snapshot, known, count = self.stores.snapshot(), set(before), 0
        for row in sorted(snapshot["inbox"], key=lambda row: (row["run_id"], row["seq"])):
            if (row["run_id"], row["seq"]) not in known and row["name"].startswith("~event:"):
                kept = self.model.signal(row["run_id"], row["name"], row["key"])
                assert kept == "new", f"the model says {kept}"
                count += 1
        for row in snapshot["waits"]:
            wait = self.model.runs[row["run_id"]]["waits"][row["slot"]]
            if wait["kind"] == "event" and row["answered_at"] is not None and not wait["answered"]:
                assert not wait["over"], "a wait that is over got an event"
                assert wait["due"] is None or wait["due"] > self.now, "a wait that expired got an event"
                wait["answered"] = row["answered_at"]
        return count

    def signals(self) -> list[tuple[int, int]]:
        """The signals that are there: (run, number)."""
        return [(number, n) for number, run in self.model.runs.items() for n in run["signals"]]


def _worker(tx: Any, name: str) -> int:
    return int(tx.put_worker(NewWorker(name, "host", 1, "life", "[]")))


NOTE = Entry(Kind.NOTE, None, b"1")
