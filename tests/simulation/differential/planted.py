"""Bugs planted on purpose, one rule broken each, in every layer that the differential test stands on.

A bug in a store shows where the stores differ, or already beside the model; one in the core or the engine is the same on
both stores, so only the model can find it. Each is a wrapper around something that is right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torpor.core.commit import Proposal
from torpor.core.ids import parse_run
from torpor.core.journal import Kind
from torpor.core.lease import Proof
from torpor.core.lease import reapable as right_reapable
from torpor.engine import branching, budgets, follow_ups, leases
from torpor.store.postgres.tx import PostgresTx
from torpor.store.sqlite import hot
from torpor.store.sqlite.tx import SqliteTx

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pytest

    from torpor.core.lease import Lease
    from torpor.core.run import Flag
    from torpor.store.protocol import Tx
    from torpor.store.rows import Append, Claim, Claimed, HoldRow, RunRow

MODEL = ("memory",)
BOTH = ("memory", "postgres")


class Planted(NamedTuple):
    """A bug: in which layer, what plants it, and which stores it takes to find it."""

    layer: str
    plant: Callable[[pytest.MonkeyPatch], None]
    stores: tuple[str, ...] = MODEL

    @property
    def name(self) -> str:
        """What is wrong, in words."""
        return self.plant.__name__.replace("_", " ")


# core


def reaped_while_it_acts(patch: pytest.MonkeyPatch) -> None:
    """Take a lock that is gone for a process that is gone (G4)."""

    def wrong(lease: Lease, *, now: int, proof: Proof, open_intent: bool, quiet_until: int) -> bool:
        del open_intent
        return right_reapable(lease, now=now, proof=proof, open_intent=False, quiet_until=quiet_until)

    patch.setattr(leases, "reapable", wrong)


def a_child_is_no_effect(patch: pytest.MonkeyPatch) -> None:
    """Let a cancelled run start a child (G12)."""
    only_intents = property(lambda p: not p.undoing and any(entry.kind is Kind.INTENT for entry in p.entries))
    patch.setattr(Proposal, "has_intent", only_intents)


# engine


def nobody_is_told(patch: pytest.MonkeyPatch) -> None:
    """Tell no parent of an end (G7)."""

    def wrong(tx: Tx, ended: Sequence[RunRow], locked: Mapping[int, RunRow]) -> None:
        del tx, ended, locked

    patch.setattr(follow_ups, "tell", wrong)


def settled_twice(patch: pytest.MonkeyPatch) -> None:
    """Charge what was settled a second time (G6)."""
    right = budgets.end

    def wrong(tx: Tx, ends: Sequence[tuple[HoldRow, int]]) -> None:
        right(tx, [*ends, *ends])

    patch.setattr(budgets, "end", wrong)


def a_fork_inherits(patch: pytest.MonkeyPatch) -> None:
    """Let a copy inherit the open waits of its source (G19)."""
    right = branching.fork

    def wrong(tx: Tx, wanted: branching.Fork) -> branching.Forked:
        made = right(tx, wanted)
        number, source = parse_run(made.run_id)[1], parse_run(wanted.run)[1]
        tx.put_waits([wait._replace(run_id=number) for wait in tx.waits([source])])
        return made

    patch.setattr(branching, "fork", wrong)


# a store on SQLite


def the_head_is_not_compared(patch: pytest.MonkeyPatch) -> None:
    """Let a copy of a worker go on where the other is (G2)."""
    right = SqliteTx.append

    def wrong(self: SqliteTx, rows: Sequence[Append], *, lease_micros: int) -> dict[int, Flag]:
        heads = {run: lease.head for run, lease in self.leases([row.run_id for row in rows]).items()}
        moved = [row._replace(head=heads.get(row.run_id, row.head)) for row in rows]
        return right(self, moved, lease_micros=lease_micros)

    patch.setattr(SqliteTx, "append", wrong)


def a_signal_is_taken_twice(patch: pytest.MonkeyPatch) -> None:
    """Leave a signal among the unread when an entry has consumed it (G7)."""

    def wrong(db: object, signals: Sequence[tuple[int, int]]) -> None:
        del db, signals

    patch.setattr(hot, "take", wrong)


def forgotten_in_a_batch(patch: pytest.MonkeyPatch) -> None:
    """Lose the last append of a group of more than three."""
    right = SqliteTx.append

    def wrong(self: SqliteTx, rows: Sequence[Append], *, lease_micros: int) -> dict[int, Flag]:
        kept = right(self, rows[:-1] if len(rows) > 3 else rows, lease_micros=lease_micros)
        return {**kept, **{row.run_id: next(iter(kept.values())) for row in rows[-1:] if kept}}

    patch.setattr(SqliteTx, "append", wrong)


# a store on PostgreSQL


def a_microsecond_early(patch: pytest.MonkeyPatch) -> None:
    """Let leases end a microsecond early on one store."""
    right = PostgresTx.append

    def wrong(self: PostgresTx, rows: Sequence[Append], *, lease_micros: int) -> dict[int, Flag]:
        return right(self, rows, lease_micros=lease_micros - 1)

    patch.setattr(PostgresTx, "append", wrong)


def a_wait_stays_open(patch: pytest.MonkeyPatch) -> None:
    """Forget the last of several waits that end together (G10)."""
    right = PostgresTx.end_waits

    def wrong(self: PostgresTx, slots: Sequence[tuple[int, int]]) -> None:
        right(self, slots[:-1] or slots)

    patch.setattr(PostgresTx, "end_waits", wrong)


def first_come_first_served(patch: pytest.MonkeyPatch) -> None:
    """Hand runs out without a look at their priority (G20)."""
    right = PostgresTx.claim

    def wrong(self: PostgresTx, wanted: Claim) -> list[Claimed]:
        return sorted(right(self, wanted), key=lambda one: one.run.id)

    patch.setattr(PostgresTx, "claim", wrong)


PLANTED = (
    Planted("core", reaped_while_it_acts),
    Planted("core", a_child_is_no_effect),
    Planted("engine", nobody_is_told),
    Planted("engine", settled_twice),
    Planted("engine", a_fork_inherits),
    Planted("store/sqlite", the_head_is_not_compared),
    Planted("store/sqlite", a_signal_is_taken_twice),
    Planted("store/sqlite", forgotten_in_a_batch),
    Planted("store/postgres", a_microsecond_early, BOTH),
    Planted("store/postgres", a_wait_stays_open, BOTH),
    Planted("store/postgres", first_come_first_served, BOTH),
)
"""Every bug. The rule that it breaks is in its docstring."""
