"""A worker of the tests' own: it claims and commits by hand, so that each operation can be held against each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torpor.core.commit import Proposal
from torpor.core.journal import Entry, Kind
from torpor.engine import leases, runs
from torpor.engine.commit import Reply, commit
from torpor.store import values
from torpor.store.rows import NewWorker, RunRow

if TYPE_CHECKING:
    from collections.abc import Callable

    from torpor.core.lease import Lease
    from torpor.store.protocol import Store
    from torpor.store.rows import Claimed

NOTE = Entry(Kind.NOTE, None, b"1")
INTENT = Entry(Kind.INTENT, "e:pay#1", b"{}")
OUTCOME = Entry(Kind.OUTCOME, "e:pay#1", b"2")


@dataclass
class Hand:
    """One worker, driven by hand."""

    store: Store
    programs: list[int]
    worker: int

    def do(self, op: Callable[..., Any], *args: Any, **more: Any) -> Any:
        """Run an operation."""
        return self.store.transact_now(op, *args, **more)

    def start(self, number: int = 1) -> list[int]:
        """Start runs."""
        started = self.do(runs.start, [runs.Start("shop", values.encode(n)) for n in range(number)])
        return [one.run_id for one in started]

    def claim(self, limit: int = 10, token: int = 7) -> list[Claimed]:
        """Claim what is ready."""
        claimed: list[Claimed] = self.do(leases.claim, self.worker, self.programs, limit, token, 0)[0]
        return claimed

    def commit(self, *proposals: Proposal) -> list[Reply]:
        """Commit a batch."""
        replies: list[Reply] = self.do(commit, proposals)
        return replies

    def run(self, number: int) -> RunRow:
        """Return a run's row."""
        found: RunRow = self.do(lambda tx: tx.get_runs([number]))[number]
        return found


def hand(store: Store) -> Hand:
    """Return a worker on an empty store that knows the program `shop`."""
    programs = store.transact_now(runs.register, [("shop", 1, "m:shop")])
    new = NewWorker("w1", "host", 1, "life", str(programs))
    return Hand(store, programs, store.transact_now(lambda tx: tx.put_worker(new)))


def proposal(lease: Lease, *entries: Entry, **more: Any) -> Proposal:
    """Return a proposal of a leaseholder at its head."""
    return Proposal(lease.run_id, lease.token, lease.epoch, lease.head, list(entries or (NOTE,)), **more)
