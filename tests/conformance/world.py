"""A small world on a store: programs, a worker, runs, and the few things that tests do to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torpor.core.journal import Entry, Kind
from torpor.core.run import Flag, State
from torpor.store.protocol import Lane
from torpor.store.rows import Append, Claim, Leave, NewRun, NewSignal, NewWorker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.core.lease import Lease
    from torpor.store.protocol import Store, Tx
    from torpor.store.rows import Claimed, Kept, Left

LEASE = 45_000_000
TOKEN = 7_000_000_000_000_000_001
OUTCOME = Entry(Kind.OUTCOME, "step/1", b"value")
WORKER = NewWorker("w1", "host", 1, "life", "[]")


class World(NamedTuple):
    """A store with one program, one tenant, one worker and some ready runs."""

    store: Store
    program: int
    tenant: int
    worker: int
    runs: list[int]

    def claim(self, limit: int = 100, *, token: int = TOKEN, after_tenant: int = 0) -> list[Claimed]:
        """Claim ready runs of the one program."""
        wanted = Claim(self.worker, [self.program], limit, token, LEASE, after_tenant)
        return self.store.transact_now(lambda tx: tx.claim(wanted))

    def append(self, rows: Sequence[Append]) -> dict[int, Flag]:
        """Append, as the committer does."""
        return self.store.transact_now(lambda tx: tx.append(rows, lease_micros=LEASE), lane=Lane.COMMIT)

    def leave(self, rows: Sequence[Leave]) -> dict[int, State]:
        """End stretches, as the committer does."""
        left: dict[int, Left] = self.store.transact_now(lambda tx: tx.leave(rows), lane=Lane.COMMIT)
        return {run_id: one.state for run_id, one in left.items()}

    def signal(self, *signals: NewSignal) -> list[Kept]:
        """Keep signals."""
        return self.store.transact_now(lambda tx: tx.add_signals(signals))

    def state(self, run: int) -> State:
        """Return the state of a run."""
        state: State = self.store.transact_now(lambda tx: tx.get_runs([run]))[run].state
        return state

    def lease(self, run: int) -> Lease | None:
        """Return the lease of a run."""
        lease: Lease | None = self.store.transact_now(lambda tx: tx.leases([run])).get(run)
        return lease


def populate(store: Store, runs: int = 1) -> World:
    """Write the small world."""

    def write(tx: Tx) -> World:
        program, tenant = tx.intern_programs([("audit", 1, "m:f")])[0], tx.intern_tenants(["default"])[0]
        ids = tx.insert_runs([NewRun(program, tenant, b"input")] * runs)
        return World(store, program, tenant, tx.put_worker(WORKER), ids)

    return store.transact_now(write)


def add(lease: Lease, *entries: Entry, forbids_cancel: bool = False) -> Append:
    """Return an append of a leaseholder at its head."""
    return Append(lease.run_id, lease.token, lease.epoch, lease.head, forbids_cancel, list(entries or (OUTCOME,)))


def away(
    lease: Lease,
    *entries: Entry,
    after: State = State.WAITING,
    seen: int = 0,
    due_at: int | None = None,
    flags: Flag = Flag.NONE,
) -> Leave:
    """Return a leave of a leaseholder at its head."""
    return Leave(add(lease, *entries), after, seen, due_at, flags)
