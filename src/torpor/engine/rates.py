"""Rate buckets in the store: a place is taken, a taker arrives, a provider pushes everybody back (`core.rate`).

Each is inside the commit that records it, under the bucket's lock, by the store's clock. Who crashes loses its own
place and nothing else: places are moments, not turns that somebody must hand on. The order of locks: leases, then one
bucket.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from torpor.core import rate
from torpor.core.journal import Entry, Kind
from torpor.core.rate import Bucket, Rate
from torpor.engine.effects import Inside
from torpor.store import values
from torpor.store.rows import BucketRow

if TYPE_CHECKING:
    from torpor.store.protocol import Tx

_NOTHING = values.encode(None)


class Taker(NamedTuple):
    """Who asks for how many units of which bucket, by the key of its call. `waited`: it has a place, and arrives."""

    key: str
    bucket: str
    n: int
    rate: Rate
    waited: bool = False


def take(tx: Tx, taker: Taker) -> Inside:
    """Take units now, or note the moment of a place. A limit that is not the stored one takes its place at once."""
    row = tx.bucket(BucketRow(taker.bucket, *taker.rate))
    bucket, now = _bucket(row), tx.now()
    changed = bucket.rate != taker.rate
    bucket = bucket._replace(rate=taker.rate)
    bucket, due_at = (rate.arrive if taker.waited else rate.take)(bucket, taker.n, now)
    _put(tx, row.name, bucket)
    said: dict[str, Any] = {"was": list(_bucket(row).rate)} if changed else {}
    if due_at <= now:
        return Inside([Entry(Kind.OUTCOME, taker.key, values.encode(said) if said else _NOTHING)])
    note = {"note": f"rate {taker.bucket}", "due_at": due_at, **said}
    return Inside([Entry(Kind.NOTE, taker.key, values.encode(note))])


def push(tx: Tx, key: str, bucket: str, pause: int) -> Inside:
    """Let nobody take from a bucket for so many microseconds: a provider said so. An unknown bucket has nobody to push."""
    row = tx.find_bucket(bucket)
    if row is not None:
        _put(tx, row.name, rate.push(_bucket(row), tx.now() + pause))
    return Inside([Entry(Kind.OUTCOME, key, _NOTHING)])


def limited(tx: Tx, key: str, bucket: str, pause: int, note: dict[str, Any]) -> Inside:
    """Push a bucket for everybody, and note when the call that was refused is tried again: at a moment of its own."""
    row = tx.find_bucket(bucket)
    again_at = tx.now() + pause
    if row is not None:
        pushed, again_at = rate.take_after(_bucket(row), again_at)
        _put(tx, row.name, pushed)
    return Inside([Entry(Kind.NOTE, key, values.encode({**note, "again_at": again_at}))])


def next_at(row: BucketRow, now: int) -> int:
    """Return the moment of the place that somebody would get who asked now."""
    return rate.take(_bucket(row), 1, now)[1]


def _bucket(row: BucketRow) -> Bucket:
    return Bucket(Rate(row.most, row.per, row.burst), row.promised, row.used, row.late)


def _put(tx: Tx, name: str, bucket: Bucket) -> None:
    tx.put_bucket(BucketRow(name, *bucket.rate, bucket.promised, bucket.used, bucket.late))
