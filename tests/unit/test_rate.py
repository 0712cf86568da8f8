"""Rate buckets against a simulated clock: the limit holds in every window, the order is kept, nobody waits in a herd."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as some

from torpor.core.rate import Bucket, Rate, arrive, push, take, take_after

SECOND = 1_000_000
START = 1_893_456_000 * SECOND


class Taker(NamedTuple):
    """Somebody who comes `after` microseconds and is `late` whenever they should wake."""

    after: int
    n: int
    late: tuple[int, ...]


class Grant(NamedTuple):
    """Who took how much, and when."""

    at: int
    who: int
    n: int


def simulate(rate: Rate, takers: list[Taker]) -> tuple[list[Grant], int]:
    """Let takers come, wake late, and act; return what was taken, and how often somebody woke."""
    bucket, wakes = Bucket(rate), 0
    grants: list[Grant] = []
    coming: list[tuple[int, int, int]] = [(START + one.after, who, 0) for who, one in enumerate(takers)]
    coming.sort()
    while coming:
        now, who, times = heappop(coming)
        wakes += times > 0
        one = takers[who]
        bucket, due = (arrive if times else take)(bucket, one.n, now)
        if due <= now:
            grants.append(Grant(now, who, one.n))
        else:
            delay = one.late[times] if times < len(one.late) else 0
            heappush(coming, (due + delay, who, times + 1))
    return grants, wakes


def most_in_a_window(grants: list[Grant], per: int) -> int:
    """Return the largest sum in any window of `per` that does not contain its end."""
    return max(sum(g.n for g in grants if begin.at <= g.at < begin.at + per) for begin in grants)


def takers_of(most: int, *, late: bool) -> some.SearchStrategy[list[Taker]]:
    """Return takers of up to `most` units."""
    delays = some.lists(some.integers(0, 90 * SECOND), max_size=3).map(tuple) if late else some.just(())
    return some.lists(
        some.builds(Taker, some.integers(0, 60 * SECOND), some.integers(1, most), delays), min_size=1, max_size=40
    )


@given(takers_of(1, late=True), some.integers(1, 12), some.integers(SECOND // 10, 60 * SECOND))
def test_a_limit_holds_in_every_window(takers: list[Taker], limit: int, per: int) -> None:
    """However late takers wake: no window of `per` sees more than the limit. All of them come through."""
    grants, _ = simulate(Rate(limit, per), takers)
    assert most_in_a_window(grants, per) <= limit
    assert sorted(grant.who for grant in grants) == list(range(len(takers)))


@given(takers_of(4, late=True), some.integers(4, 12), some.integers(1, 4), some.integers(SECOND, 60 * SECOND))
def test_bursts_and_large_takers_add_what_is_said(takers: list[Taker], limit: int, burst: int, per: int) -> None:
    """A window sees at most `limit + max(burst, n) - 1`."""
    grants, _ = simulate(Rate(limit, per, burst), takers)
    assert most_in_a_window(grants, per) <= limit + max(burst, *(taker.n for taker in takers)) - 1


@given(takers_of(3, late=False), some.integers(3, 12), some.integers(1, 3))
def test_who_asks_first_goes_first(takers: list[Taker], limit: int, burst: int) -> None:
    """Nobody is passed, and nobody wakes more than once, while all wake at their moment (G20)."""
    grants, wakes = simulate(Rate(limit, 60 * SECOND, burst), takers)
    order = sorted(range(len(takers)), key=lambda who: (takers[who].after, who))
    assert [grant.who for grant in grants] == order
    assert wakes <= len(takers)


def test_a_fleet_that_was_down_is_no_herd() -> None:
    """A hundred places long past their moment: one acts now, the others come one by one, two wakes each at most."""
    takers = [Taker(0, 1, (10_000 * SECOND,)) for _ in range(100)]
    grants, wakes = simulate(Rate(10, 60 * SECOND), takers)
    assert most_in_a_window(grants, 60 * SECOND) <= 10
    assert wakes <= 2 * len(takers)


def test_nobody_takes_before_a_provider_allows() -> None:
    """A push holds for places that were given out before, and what had gathered is gone."""
    rate = Rate(10, 60 * SECOND, burst=5)
    bucket, due = take(Bucket(rate), 1, START)
    assert due == START
    until = START + 30 * SECOND
    bucket = push(bucket, until)
    places = []
    for _ in range(3):
        bucket, due = take(bucket, 1, START)
        places.append(due)
    assert places == [until, until + 6 * SECOND, until + 12 * SECOND]
    assert push(bucket, START) == bucket


def test_those_who_were_sent_away_come_back_one_by_one() -> None:
    """Each has a moment of its own, and who takes a place after them comes later."""
    bucket = Bucket(Rate(10, 60 * SECOND))
    moments = []
    for _ in range(3):
        bucket, again_at = take_after(bucket, START + 30 * SECOND)
        moments.append(again_at - START)
    assert moments == [30 * SECOND, 36 * SECOND, 42 * SECOND]
    assert take(bucket, 1, START)[1] == START + 48 * SECOND
