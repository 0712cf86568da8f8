"""Waking many runs at once is a queue (G20): bounded batches, fair between tenants, nobody else's claim walks past them.

What is counted is rows, never time; `torpor bench w6` measures the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.stores import START_AT, Moment, raw
from torpor.core.commit import NewMessage
from torpor.core.run import State
from torpor.engine import leases, runs, waits
from torpor.store.rows import RunChange

if TYPE_CHECKING:
    from torpor.store.protocol import Store, Tx

MANY = 2000
DUE_AT = START_AT + 60_000_000
WORKER = 7


def herd(store: Store, moment: Moment) -> dict[str, int]:
    """Let MANY runs of two tenants sleep until the same moment; return the programs' numbers."""
    numbers = store.transact_now(runs.register, [("herd", 1, "x"), ("lone", 1, "x")])

    def sleep(tx: Tx) -> None:
        tenants = ("large", "small")
        runs.start(tx, [runs.Start("herd", b"null", tenant=tenants[n % 10 == 0], due_at=DUE_AT) for n in range(MANY)])

    store.transact_now(sleep)
    moment.advance(60)
    return dict(zip(("herd", "lone"), numbers, strict=True))


def ready(store: Store) -> int:
    """Return how many runs are ready."""
    return int(store.transact_now(lambda tx: tx.count_runs([State.READY], most=MANY + 1))[State.READY])


def wake_all(store: Store) -> list[int]:
    """Sweep until nothing is due; return how many each transaction woke."""
    woken = []
    while (swept := store.transact_now(waits.fire_timers)).done:
        woken.append(swept.done)
        assert swept.more == (swept.done == waits.SWEEP)
    return woken


def test_timers_wake_in_bounded_batches(store: Store, moment: Moment) -> None:
    """One transaction wakes at most SWEEP runs, says that there are more, and each run becomes ready once."""
    herd(store, moment)
    assert wake_all(store) == [waits.SWEEP] * (MANY // waits.SWEEP)
    assert ready(store) == MANY


def test_messages_are_delivered_in_bounded_batches(store: Store, moment: Moment) -> None:
    """A storm of messages to many runs: as bounded."""
    herd(store, moment)

    def storm(tx: Tx) -> None:
        targets = [run.id for run in tx.get_runs(list(range(1, MANY + 1))).values()]
        tx.add_messages([(targets[0], NewMessage(target, "go", f"k{target}", b"null")) for target in targets])

    store.transact_now(storm)
    sizes = []
    while (swept := store.transact_now(waits.deliver)).done:
        sizes.append(swept.done)
    assert sizes == [waits.SWEEP] * (MANY // waits.SWEEP)
    assert ready(store) == MANY


def test_tenants_take_turns_among_the_woken(store: Store, moment: Moment) -> None:
    """Each claim takes one tenant's runs, so the small tenant's are gone long before the large one's."""
    programs = herd(store, moment)
    wake_all(store)
    tenant, order = 0, []
    for _ in range(6):
        claimed, _ = store.transact_now(leases.claim, WORKER, [programs["herd"]], 50, 5, tenant)
        tenant = claimed[0].run.tenant
        assert {one.run.tenant for one in claimed} == {tenant}
        order.append(tenant)
    assert order == [order[0], order[1]] * 3
    assert order[0] != order[1]


def reads(tx: Tx, kind: str) -> int:
    """Return how much this connection's transaction has read of the runs' table so far, on a server."""
    if kind != "postgres":
        return 0
    row = raw(tx).execute("SELECT pg_stat_get_xact_tuples_fetched('runs'::regclass)").fetchone()
    return int(row[0])


@pytest.mark.parametrize("tenant", ["default", "large"])
def test_a_claim_walks_past_nobody(store: Store, moment: Moment, tenant: str) -> None:
    """A claim for one program reads the same few rows whether none or MANY runs of another one are ready before it."""
    programs = herd(store, moment)
    costs = [_cost(store, programs["lone"], tenant, after) for after in (0, 1)]
    wake_all(store)
    store.transact_now(_older)
    later = [_cost(store, programs["lone"], tenant, after) for after in (0, 1)]
    assert max(later) <= 2 * max(costs) + 20, (costs, later)


def _older(tx: Tx) -> None:
    """Make the woken runs those that have been ready for longest."""
    ids = list(range(1, MANY + 1))
    tx.get_runs(ids, lock=True)
    tx.change_runs([RunChange(run_id, due_at=1) for run_id in ids])


def _cost(store: Store, program: int, tenant: str, after: int) -> int:
    """Claim a run of a program, and return what that read: steps of SQLite's machine in tens, or a server's rows."""
    store.transact_now(runs.start, [runs.Start("lone", b"null", tenant=tenant)])
    steps = [0]

    def step() -> int:
        steps[0] += 1
        return 0

    def claim(tx: Tx) -> int:
        before = reads(tx, store.kind)
        if store.kind == "sqlite":
            raw(tx).set_progress_handler(step, 10)
        claimed, _ = leases.claim(tx, WORKER, [program], 10, 5, after)
        if store.kind == "sqlite":
            raw(tx).set_progress_handler(None, 10)
        assert len(claimed) == 1
        return reads(tx, store.kind) - before

    rows = store.transact_now(claim)
    return rows or steps[0]
