"""Leases: claimed by workers, renewed by their own thread, ended by a reaper that asks twice.

What a sweep selected is checked again under the run's lock before it is changed; otherwise a finished run comes back
to life. `core.lease` says what each party may believe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torpor.core.lease import LEASE_SECONDS, Lease, Proof, reapable
from torpor.core.run import State
from torpor.engine import streams
from torpor.store.rows import Claim, RunChange, RunFilter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torpor.core.wait import Signal
    from torpor.store.protocol import Tx
    from torpor.store.rows import Claimed, RunRow, WaitRow

LEASE_MICROS = round(LEASE_SECONDS * 1_000_000)
SWEEP = 200
"""At most so many runs a sweep changes in one transaction."""


def claim(
    tx: Tx,
    worker: int,
    programs: Sequence[int],
    limit: int,
    token: int,
    after_tenant: int,
    lease_micros: int = LEASE_MICROS,
) -> tuple[list[Claimed], dict[bytes, bytes]]:
    """Claim ready runs, with every large body they name.

    The claim is a transaction of its own: a run's large bodies stay while it runs, and are read after it.
    """
    tx.alone()
    claimed = tx.claim(Claim(worker, list(programs), limit, token, lease_micros, after_tenant))
    digests = _named_blobs(claimed)
    return claimed, tx.get_blobs(digests, later=True) if digests else {}


def _named_blobs(claimed: Sequence[Claimed]) -> list[bytes]:
    found: set[bytes] = set()
    for one in claimed:
        bodies = [one.state.body]
        bodies += [entry.body for entry in one.entries if entry.body]
        bodies += [signal.body for signal in one.unread if signal.body]
        found.update(body[1:] for body in bodies if body[:1] == b"\x00")
    return sorted(found)


def renew(tx: Tx, worker: int, held: Sequence[tuple[int, int, int]], lease_micros: int = LEASE_MICROS) -> list[Lease]:
    """Renew (run, token, epoch) leases and say that the worker is alive. Never makes a lease that is gone."""
    tx.see_worker(worker)
    return tx.renew(worker, held, lease_micros=lease_micros) if held else []


class Reaped(NamedTuple):
    """A run that was taken from a dead or silent worker."""

    run_id: int
    worker: int
    epoch: int
    proof: Proof


def reap(tx: Tx, proofs: Mapping[int, Proof], *, quiet_until: int, limit: int = SWEEP) -> list[Reaped]:
    """End leases whose time is over, and those of workers proven gone; their runs become ready (a takeover).

    A worker's row goes when its process is proven gone, or by itself once it let everything go, and no number is given
    twice. So a lease whose worker has no row is that of a claim that came after its sender's death: it counts as proof.
    """
    now = tx.now()
    candidates = {lease.run_id: lease for lease in tx.expired_leases(before=now, limit=limit)}
    nobodys = tx.nobodys_leases(limit=limit)
    candidates.update((lease.run_id, lease) for lease in nobodys)
    proofs = {**proofs, **{lease.worker: Proof.PROCESS_GONE for lease in nobodys}}
    for worker in proofs:
        candidates.update((lease.run_id, lease) for lease in tx.leases_of(worker, limit=limit))
    if not candidates:
        return []
    ids = sorted(candidates)[:limit]
    runs = tx.get_runs(ids, lock=True, skip_locked=True)
    leases = tx.leases(sorted(runs), lock=True, skip_locked=True)
    unsure = [run_id for run_id, lease in leases.items() if proofs.get(lease.worker) is Proof.LOCK_GONE]
    intents = tx.open_intents(unsure) if unsure else {}
    taken: list[Reaped] = []
    changes: list[RunChange] = []
    for run_id, lease in sorted(leases.items()):
        proof = proofs.get(lease.worker, Proof.NONE)
        run = runs[run_id]
        good = run.state is State.RUNNING and run.epoch == lease.epoch
        if good and reapable(lease, now=now, proof=proof, open_intent=run_id in intents, quiet_until=quiet_until):
            taken.append(Reaped(run_id, lease.worker, lease.epoch, proof))
            changes.append(_freed(run, lease, now))
    if taken:
        tx.drop_leases([one.run_id for one in taken])
        streams.retract(tx, [one.run_id for one in taken])
        tx.change_runs(changes)
        tx.hint("ready")
    return taken


def _freed(run: RunRow, lease: Lease, now: int) -> RunChange:
    """A takeover without one new entry is a stall; POISON_TAKEOVERS of them in a row are a matter for a person."""
    stalls = run.stalls + 1 if lease.head == run.head else 0
    return RunChange(run.id, state=State.READY, due_at=now, head=lease.head, takeovers=1, stalls=stalls)


def coming(tx: Tx, programs: Sequence[int]) -> tuple[bool, int | None]:
    """Whether a run of these programs is ready, or news is on its way that may make one ready; when the next falls due."""
    on_its_way = tx.undelivered()
    ready = tx.list_runs(RunFilter([State.READY], list(programs), limit=1))
    return bool(ready) or on_its_way, tx.next_due()


class News(NamedTuple):
    """What the store has for a run that is held: its lease, inbox counter, unread signals and open waits."""

    lease: Lease | None
    inbox: int
    unread: list[Signal]
    waits: list[WaitRow]
    blobs: dict[bytes, bytes]


def news(tx: Tx, ids: Sequence[int]) -> dict[int, News]:
    """Read what came for runs since they were claimed."""
    runs = tx.get_runs(ids)
    leases, unread = tx.leases(ids), tx.unread(ids)
    waits: dict[int, list[WaitRow]] = {}
    for wait in tx.waits(ids):
        waits.setdefault(wait.run_id, []).append(wait)
    named = {s.body[1:] for signals in unread.values() for s in signals if s.body and s.body[:1] == b"\x00"}
    blobs = tx.get_blobs(sorted(named), later=True) if named else {}
    return {
        run_id: News(leases.get(run_id), run.inbox, unread.get(run_id, []), waits.get(run_id, []), blobs)
        for run_id, run in runs.items()
    }
