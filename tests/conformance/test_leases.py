"""Leases and workers: renewing, flagging, ending, and who is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.world import LEASE, TOKEN, WORKER, populate
from tests.stores import START_AT
from torpor.core.run import Flag
from torpor.store.rows import Claim

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store


def test_renew_extends_what_exists_and_makes_nothing(store: Store, moment: Moment) -> None:
    """A lease with another token, epoch or worker, or one that is gone, is not renewed and not made."""
    world = populate(store, 4)
    leases = [claimed.lease for claimed in world.claim()]
    asked = [(lease.run_id, lease.token, lease.epoch) for lease in leases]
    store.transact_now(lambda tx: tx.drop_leases([world.runs[3]]))
    wrong = [asked[0], (asked[1][0], TOKEN + 1, 1), (asked[2][0], TOKEN, 2), asked[3]]
    at = moment.advance(20)
    renewed = store.transact_now(lambda tx: tx.renew(world.worker, wrong, lease_micros=LEASE))
    assert renewed == [leases[0]._replace(expires_at=at + LEASE)]
    assert store.transact_now(lambda tx: tx.renew(world.worker + 1, asked, lease_micros=LEASE)) == []
    now = store.transact_now(lambda tx: tx.leases(world.runs))
    assert now == {leases[0].run_id: renewed[0], leases[1].run_id: leases[1], leases[2].run_id: leases[2]}


def test_expired_leases_are_found(store: Store, moment: Moment) -> None:
    """By their end, as many as asked for."""
    world = populate(store, 3)
    world.claim(2)
    moment.advance(10)
    world.claim(1)
    ended = START_AT + LEASE
    assert store.transact_now(lambda tx: tx.expired_leases(before=ended - 1, limit=9)) == []
    found = store.transact_now(lambda tx: tx.expired_leases(before=ended, limit=9))
    assert sorted(lease.run_id for lease in found) == world.runs[:2]
    assert len(store.transact_now(lambda tx: tx.expired_leases(before=ended * 2, limit=2))) == 2
    assert len(store.transact_now(lambda tx: tx.all_leases(limit=9))) == 3
    assert len(store.transact_now(lambda tx: tx.leases_of(world.worker, limit=9))) == 3
    assert store.transact_now(lambda tx: tx.leases_of(world.worker + 1, limit=9)) == []


def test_leases_whose_worker_has_no_row_are_found(store: Store) -> None:
    """As many as asked for; those of a worker with a row are not among them."""
    world = populate(store, 3)
    world.claim(1)
    assert store.transact_now(lambda tx: tx.nobodys_leases(limit=9)) == []
    gone = store.transact_now(lambda tx: tx.put_worker(WORKER._replace(name="w2", pid=2)))
    store.transact_now(lambda tx: tx.drop_workers([gone]))
    late = store.transact_now(lambda tx: tx.claim(Claim(gone, [world.program], 2, TOKEN, LEASE, 0)))
    found = store.transact_now(lambda tx: tx.nobodys_leases(limit=9))
    assert sorted(lease.run_id for lease in found) == sorted(claimed.run.id for claimed in late)
    assert {lease.worker for lease in found} == {gone}
    assert len(store.transact_now(lambda tx: tx.nobodys_leases(limit=1))) == 1


def test_flags_are_added_to_leases(store: Store) -> None:
    """Whoever renews learns them; runs without a lease are passed over."""
    world = populate(store, 2)
    lease = world.claim(1)[0].lease
    store.transact_now(lambda tx: tx.flag_leases(world.runs, Flag.CANCEL))
    store.transact_now(lambda tx: tx.flag_leases(world.runs, Flag.ATTENTION))
    asked = [(lease.run_id, lease.token, lease.epoch)]
    renewed = store.transact_now(lambda tx: tx.renew(world.worker, asked, lease_micros=LEASE))
    assert renewed[0].flags == Flag.CANCEL | Flag.ATTENTION
    assert world.lease(world.runs[1]) is None


def test_workers_come_and_go(store: Store, moment: Moment) -> None:
    """A worker that holds leases is not forgotten."""
    world = populate(store, 1)
    other = store.transact_now(lambda tx: tx.put_worker(WORKER._replace(name="w2", pid=2)))
    lease = world.claim()[0].lease
    at = moment.advance(7)
    store.transact_now(lambda tx: tx.see_worker(other))
    rows = store.transact_now(lambda tx: tx.workers())
    assert [(w.id, w.name, w.pid, w.started_at, w.seen_at) for w in rows] == [
        (world.worker, "w1", 1, START_AT, START_AT),
        (other, "w2", 2, START_AT, at),
    ]
    assert (rows[0].host, rows[0].life, rows[0].programs) == (WORKER.host, WORKER.life, WORKER.programs)
    store.transact_now(lambda tx: tx.drop_workers([world.worker, other]))
    assert [w.id for w in store.transact_now(lambda tx: tx.workers())] == [world.worker]
    store.transact_now(lambda tx: tx.drop_leases([lease.run_id]))
    store.transact_now(lambda tx: tx.drop_workers([world.worker]))
    assert store.transact_now(lambda tx: tx.workers()) == []
    assert store.transact_now(lambda tx: tx.put_worker(WORKER)) > other, "a number is never given twice"
