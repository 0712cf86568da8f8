"""Rate buckets: who may act when, so that all processes together keep a limit. Pure; times are the store's microseconds.

A bucket is the generic cell rate algorithm three times over, each a chain that grows by one interval per unit:

    promised   places given out: a taker that cannot act now is told the moment of its place, so takers come in the order
               in which they asked, each at a moment of its own, and nobody is woken to find the bucket empty
    used       what was truly taken, by the moment it was taken: the only chain that grants
    late       places of takers that came when `used` did not allow it: behind time after an outage, or pushed back by
               a provider's Retry-After. They too get moments of their own

A taker acts only when `used` allows it at that moment, so a fleet that was down and finds a thousand places past their
time cannot act a thousand times at once. What is taken in any window of `per` is at most the limit, plus what is taken
together: `limit + max(burst, n) - 1` units (tests/unit/test_rate.py).
"""

from __future__ import annotations

from typing import NamedTuple


class Rate(NamedTuple):
    """A limit: so many units in `per` microseconds, `burst` of them at once."""

    limit: int
    per: int
    burst: int = 1

    @property
    def interval(self) -> int:
        """Return the microseconds of one unit, rounded up: the limit is never exceeded by rounding."""
        return -(-self.per // self.limit)


class Bucket(NamedTuple):
    """A bucket's limit and its chains."""

    rate: Rate
    promised: int = 0
    used: int = 0
    late: int = 0


def take(bucket: Bucket, n: int, now: int) -> tuple[Bucket, int]:
    """Ask for `n` units. Returns the bucket and the moment of the place: `now` if they were taken at once."""
    interval = bucket.rate.interval
    promised = max(bucket.promised, bucket.used, bucket.late, now) + n * interval
    due = max(now, promised - _tolerance(bucket.rate, n))
    used = max(bucket.used, now) + n * interval if due == now else bucket.used
    return bucket._replace(promised=promised, used=used), due


def arrive(bucket: Bucket, n: int, now: int) -> tuple[Bucket, int]:
    """Come to one's place. Returns the bucket and `now` if the units were taken, else the moment of another place."""
    interval, tolerance = bucket.rate.interval, _tolerance(bucket.rate, n)
    used = max(bucket.used, now) + n * interval
    if used - tolerance <= now:
        return bucket._replace(used=used), now
    late = max(bucket.late, bucket.used, now) + n * interval
    return bucket._replace(late=late), late - tolerance


def push(bucket: Bucket, until: int) -> Bucket:
    """Let nobody take anything before a moment; then one at a time, because what had gathered is gone."""
    rate = bucket.rate
    return bucket._replace(used=max(bucket.used, until + (rate.burst - 1) * rate.interval))


def take_after(bucket: Bucket, until: int) -> tuple[Bucket, int]:
    """Push the bucket, and take one unit then, for who was refused: its moment is its own (no herd)."""
    pushed = push(bucket, until)
    used = pushed.used + pushed.rate.interval
    return pushed._replace(used=used), used - _tolerance(pushed.rate, 1)


def _tolerance(rate: Rate, n: int) -> int:
    """Return how far a chain may run ahead: what is taken together may be as large as the burst, or as one taker."""
    return max(rate.burst, n) * rate.interval
