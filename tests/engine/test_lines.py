"""Lines, deadlines, tags and whose turn it is: engine operations on both stores, the clock moved by hand."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from torpor.core.commit import Proposal
from torpor.core.journal import Entry, Kind
from torpor.core.run import Flag, State
from torpor.engine import deadlines, follow_ups, leases, lines, runs, waits
from torpor.engine.commit import commit
from torpor.engine.queries.fleet import run_lines
from torpor.errors import UsageError
from torpor.store.rows import NewSignal, NewWorker, RunChange

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.core.lease import Lease
    from torpor.store.protocol import Store, Tx
    from torpor.store.rows import Claimed

SECOND = 1_000_000
LEASE = 45 * SECOND


class Shop:
    """A store with one program and a worker that claims its runs."""

    def __init__(self, store: Store) -> None:
        """Write the program and the worker."""
        self.do = store.transact_now
        self.programs: list[int] = self.do(runs.register, [("shop", 1, "m:shop")])
        self.worker: int = self.do(lambda tx: tx.put_worker(NewWorker("w1", "host", 1, "life", "[]")))
        self.tenant = 0

    def start(self, **more: Any) -> int:
        """Start a run."""
        number: int = self.do(runs.start, [runs.Start("shop", b"1", **more)])[0].run_id
        return number

    def claim(self, limit: int = 100, programs: list[int] | None = None) -> list[Claimed]:
        """Claim ready runs, as a worker does: the next tenant's."""
        asked = programs or self.programs
        found: list[Claimed] = self.do(leases.claim, self.worker, asked, limit, 7, self.tenant, LEASE)[0]
        self.tenant = found[-1].run.tenant if found else self.tenant
        return found

    def end(self, lease: Lease, after: State = State.COMPLETED) -> None:
        """End a run."""
        entry = Entry(Kind.OUTCOME, None, b"1")
        proposal = Proposal(lease.run_id, lease.token, lease.epoch, lease.head, [entry], after)
        self.do(commit, [proposal])

    def sweep(self) -> None:
        """Do what a waker does, until nothing is left."""
        while self.do(follow_ups.settle).more or self.do(lines.admit).more:
            pass

    def state(self, run: int) -> State:
        """Return a run's state."""
        state: State = self.do(lambda tx: tx.get_runs([run]))[run].state
        return state

    def reason(self, run: int) -> str:
        """Return what people read about a run."""
        return str(self.do(lambda tx: run_lines(tx, list(tx.get_runs([run]).values())))[0].reason)


@pytest.fixture
def shop(store: Store) -> Shop:
    """Return a shop on each store."""
    return Shop(store)


def test_a_place_is_passed_on_by_priority_then_by_age(shop: Shop) -> None:
    """One at a time; who waits says behind how many; the urgent one goes first, then the oldest."""
    first, second, third = (shop.start(line="customer-7") for _ in range(3))
    urgent = shop.start(line="customer-7", priority=-1)
    other = shop.start(line="customer-8")
    assert {one.run.id for one in shop.claim()} == {first, other}
    assert [shop.state(run) for run in (second, third, urgent)] == [State.WAITING] * 3
    assert shop.reason(third) == "behind 3 others for customer-7"
    assert shop.reason(urgent) == "behind 1 other for customer-7"
    order = []
    lease = shop.do(lambda tx: tx.leases([first]))[first]
    while lease is not None:
        shop.end(lease)
        shop.sweep()
        claimed = shop.claim()
        order += [one.run.id for one in claimed]
        lease = claimed[0].lease if claimed else None
    assert order == [urgent, second, third]


def test_nothing_wakes_who_waits_for_a_place_but_a_cancel(shop: Shop) -> None:
    """A signal is kept and wakes nobody; a cancel ends it without a place, and whoever has one keeps it."""
    holder, queued, last = (shop.start(line="a") for _ in range(3))
    shop.do(waits.signal, [NewSignal(queued, "go", b"1")])
    shop.sweep()
    assert (shop.state(queued), [one.run.id for one in shop.claim()]) == (State.WAITING, [holder])
    shop.do(runs.cancel, queued, "not needed")
    shop.sweep()
    (claimed,) = shop.claim()
    assert (claimed.run.id, Flag.CANCEL in claimed.lease.flags) == (queued, True)
    shop.end(claimed.lease, State.CANCELLED)
    shop.sweep()
    assert (shop.state(last), shop.claim(), shop.reason(queued)) == (State.WAITING, [], "not needed")


def test_a_run_for_later_queues_when_its_moment_has_come(shop: Shop, moment: Moment) -> None:
    """It holds nothing before; then it waits like the others."""
    later = shop.start(line="a", due_at=moment.now() + 10 * SECOND)
    holder = shop.start(line="a")
    (claimed,) = shop.claim()
    assert claimed.run.id == holder
    moment.advance(10)
    shop.do(waits.fire_timers)
    shop.sweep()
    assert shop.reason(later) == "behind 1 other for a"
    shop.end(claimed.lease)
    shop.sweep()
    assert [one.run.id for one in shop.claim()] == [later]


def test_a_higher_limit_lets_more_through(shop: Shop) -> None:
    """The limit that was said last holds; a lower one takes nobody's place away."""
    one, two, three = (shop.start(line="a") for _ in range(3))
    four = shop.start(line="a", line_limit=3)
    shop.sweep()
    assert {claimed.run.id for claimed in shop.claim()} == {one, two, three}
    five = shop.start(line="a", line_limit=1)
    shop.sweep()
    assert [shop.state(run) for run in (four, five)] == [State.WAITING] * 2


@pytest.mark.parametrize("seed", range(4))
def test_no_place_leaks_and_none_is_given_twice(shop: Shop, seed: int) -> None:
    """Whatever happens in whatever order, with sweeps that are cut anywhere, every run gets its turn."""
    chance = random.Random(seed)  # noqa: S311 - an order, not a secret
    limit = 2
    running: dict[int, Lease] = {}
    started: list[int] = []
    for _ in range(120):
        match chance.choice(["start", "claim", "end", "lose", "cancel", "settle", "admit"]):
            case "start" if len(started) < 25:
                started.append(shop.start(line="a", line_limit=limit, priority=chance.randrange(3)))
            case "claim":
                running |= {one.run.id: one.lease for one in shop.claim(1)}
            case "end" if running:
                _, lease = running.popitem()
                after = State.CANCELLED if Flag.CANCEL in lease.flags else State.FAILED
                shop.end(lease, after)
            case "lose" if running:
                run, _ = running.popitem()
                shop.do(_lose, run)
            case "cancel" if started:
                shop.do(runs.cancel, chance.choice(started))
                running = {run: lease._replace(flags=_flags(shop, run)) for run, lease in running.items()}
            case "settle":
                shop.do(follow_ups.settle)
            case "admit":
                shop.do(lines.admit, limit=1)
        held = shop.do(lambda tx: [one.held for one in tx.in_line(started, most=1).values()]) if started else []
        assert sum(held) <= limit
    while any(not shop.state(run).final for run in started):
        shop.sweep()
        claimed = shop.claim()
        leases_now = [*running.values(), *(one.lease for one in claimed)]
        assert leases_now, "somebody waits for ever"
        running = {}
        for lease in leases_now:
            flags = _flags(shop, lease.run_id)
            shop.end(lease, State.CANCELLED if Flag.CANCEL in flags else State.COMPLETED)
    shop.sweep()
    assert shop.do(lambda tx: tx.in_line(started, most=1)) == {}


def _flags(shop: Shop, run: int) -> Flag:
    flags: Flag = shop.do(lambda tx: tx.get_runs([run]))[run].flags
    return flags


def _lose(tx: Tx, run: int) -> None:
    row = tx.get_runs([run], lock=True)[run]
    tx.drop_leases([run])
    tx.change_runs([RunChange(run, state=State.READY, due_at=tx.now(), head=row.head)])


def test_a_deadline_cancels_what_has_not_ended_and_says_so(shop: Shop, moment: Moment) -> None:
    """Not a moment before; what ended is left alone; the reason stands on record."""
    late = shop.start(deadline_micros=60 * SECOND)
    done = shop.start(deadline_at=moment.now() + 60 * SECOND)
    free = shop.start()
    for claimed in shop.claim():
        if claimed.run.id == done:
            shop.end(claimed.lease)
    assert shop.do(deadlines.cancel_late).due_at == moment.now() + 60 * SECOND
    moment.advance(60)
    shop.do(deadlines.cancel_late)
    assert [Flag.CANCEL in _flags(shop, run) for run in (late, done, free)] == [True, False, False]
    assert shop.do(lambda tx: tx.cancels([late, done])) == {late: "deadline passed"}
    assert shop.do(deadlines.cancel_late).due_at == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"deadline_micros": 0},
        {"deadline_at": 1},
        {"line": "x" * 201},
        {"line": "a\0"},
        {"line": "a", "line_limit": 0},
        {"tag": "x" * 101},
        {"priority": 40_000},
    ],
)
def test_what_makes_no_sense_starts_nothing(shop: Shop, wrong: dict[str, Any]) -> None:
    """It is refused with the value, and no run is there."""
    with pytest.raises(UsageError):
        shop.start(**wrong)
    assert shop.claim() == []


def test_a_tag_is_a_program_of_its_own_to_a_claim(shop: Shop) -> None:
    """Only who asks for the tagged number gets the run; a second start with the tag shares it."""
    tagged, plain = shop.start(tag="gpu"), shop.start()
    again = shop.start(tag="gpu")
    assert [one.run.id for one in shop.claim()] == [plain]
    numbers = shop.do(runs.register, [("shop", 1, "m:shop")], tag="gpu")
    assert numbers != shop.programs
    assert {one.run.id for one in shop.claim(programs=numbers)} == {tagged, again}


def test_a_busy_tenant_starves_nobody(shop: Shop) -> None:
    """One tenant with 5,000 ready runs, another with 10: every second claim is the other's. Priorities hold within one."""
    shop.do(runs.start, [runs.Start("shop", b"1", tenant="big")] * 5000)
    shop.do(runs.start, [runs.Start("shop", b"1", tenant="small", priority=n % 2) for n in range(10)])
    small = shop.do(lambda tx: tx.intern_tenants(["small"]))[0]
    seen: list[int] = []
    priorities: list[int] = []
    claims = 0
    while seen.count(small) < 10:
        claimed = shop.claim(5)
        claims += 1
        seen += [one.run.tenant for one in claimed]
        priorities += [one.run.priority for one in claimed if one.run.tenant == small]
    assert claims <= 4
    assert priorities == [0] * 5 + [1] * 5
