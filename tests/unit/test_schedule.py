"""What becomes of due slots: each policy, the grace, the bounds, and lots that are the same everywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torpor.core.schedule import (
    GRACE_OF_SKIP,
    MOST_AT_ONCE,
    SECOND,
    Fate,
    Missed,
    Older,
    Rule,
    check,
    delay,
    settle,
    span,
)
from torpor.errors import UsageError

HOUR = 3600 * SECOND
NOW = 100 * HOUR


def due(*hours_ago: float) -> list[tuple[int, int]]:
    """Return slots so many hours ago."""
    return [(moment, moment) for moment in (NOW - round(ago * HOUR) for ago in hours_ago)]


def fates(rule: Rule, *hours_ago: float) -> str:
    """Return the strip of settled slots."""
    return "".join(one.fate.sign for one in settle(rule, None, due(*hours_ago), now=NOW))


@pytest.mark.parametrize(
    ("rule", "ago", "strip"),
    [
        (Rule(cron="x"), (2, 1, 0), "++#"),
        (Rule(cron="x"), (30,), "#"),
        (Rule(cron="x", grace_micros=HOUR), (3, 2), "--"),
        (Rule(cron="x", grace_micros=HOUR), (3, 1, 0.5), "-+#"),
        (Rule(cron="x", missed=Missed.SKIP), (2, 1, 0), "--#"),
        (Rule(cron="x", missed=Missed.SKIP), (2, 1), "--"),
        (Rule(cron="x", missed=Missed.SKIP, grace_micros=HOUR), (2, 1, 0.5), "-##"),
        (Rule(cron="x", missed=Missed.ALL, up_to=2), (3, 2, 1, 0), "--##"),
        (Rule(cron="x", missed=Missed.ALL, up_to=10), (3, 2, 1, 0), "####"),
        (Rule(cron="x", missed=Missed.ALL, up_to=10, grace_micros=HOUR), (3, 2, 1, 0), "--##"),
    ],
)
def test_policies(rule: Rule, ago: tuple[float, ...], strip: str) -> None:
    """Which of the missed slots are made up for, by policy and grace."""
    assert fates(rule, *ago) == strip


def test_what_is_older_shares_a_row() -> None:
    """A stretch of missed slots says how many there were, and why nobody fired them."""
    older = Older(NOW - 9 * HOUR, NOW - 2 * HOUR, 9_900)
    latest, newest = settle(Rule(cron="x"), older, due(1), now=NOW)
    assert (latest.fate, latest.many, latest.reason) == (Fate.COALESCED, 9_900, "missed; a later one stands for all")
    assert newest.fate is Fate.FIRED
    [alone] = settle(Rule(cron="x"), older, [], now=NOW, more=True)
    assert alone.fate is Fate.COALESCED
    [skipped] = settle(Rule(cron="x", missed=Missed.SKIP), older, [], now=NOW)
    assert (skipped.fate, skipped.reason) == (Fate.SKIPPED, "missed, all past the grace of 1m")
    first, *_ = settle(Rule(cron="x", missed=Missed.ALL, up_to=3), older, due(1), now=NOW)
    assert (first.fate, first.reason) == (Fate.SKIPPED, "missed; only the last 3 are made up for")


@given(
    st.sampled_from(Missed),
    st.integers(1, MOST_AT_ONCE),
    st.none() | st.integers(0, 10 * HOUR),
    st.lists(st.integers(0, 20 * HOUR), max_size=150, unique=True),
)
def test_every_slot_has_one_fate(missed: Missed, up_to: int, grace: int | None, late: list[int]) -> None:
    """Each slot once, in order; never more runs than the policy allows, and none past the grace."""
    rule = Rule(cron="x", missed=missed, up_to=up_to, grace_micros=grace)
    slots = [(NOW - ago, NOW - ago) for ago in sorted(late, reverse=True)]
    settled = settle(rule, None, slots, now=NOW)
    assert [one.slot_at for one in settled] == [slot_at for slot_at, _ in slots]
    fired = [one for one in settled if one.fate is Fate.FIRED]
    assert len(fired) <= rule.most
    limit = grace if grace is not None else GRACE_OF_SKIP if missed is Missed.SKIP else 21 * HOUR
    assert all(NOW - one.slot_at <= limit for one in fired)
    assert len(fired) == min(rule.most, sum(ago <= limit for ago in late))
    assert all(one.reason for one in settled if one.fate is not Fate.FIRED)


def test_lots_are_the_same_everywhere() -> None:
    """Jitter differs by slot, stagger by schedule; both stay below what was given."""
    rule = Rule(cron="x", jitter_micros=HOUR)
    assert [delay("a", rule, slot) for slot in (1, 2)] == [delay("a", rule, slot) for slot in (1, 2)]
    lots = {delay("a", rule, slot) for slot in range(50)}
    assert len(lots) == 50
    assert max(lots) < HOUR
    stagger = Rule(cron="x", stagger_micros=HOUR)
    assert len({delay("a", stagger, slot) for slot in range(50)}) == 1
    assert delay("a", stagger, 1) != delay("b", stagger, 1)
    assert delay("a", Rule(cron="x"), 1) == 0


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("", Rule(cron="x")),
        ("a b", Rule(cron="x")),
        ("a", Rule()),
        ("a", Rule(cron="x", every_micros=SECOND)),
        ("a", Rule(every_micros=SECOND // 2)),
        ("a", Rule(every_micros=-SECOND)),
        ("a", Rule(every_micros=SECOND + 1)),
        ("a", Rule(cron="x", up_to=0)),
        ("a", Rule(cron="x", up_to=101)),
        ("a", Rule(cron="x", grace_micros=-1)),
        ("a", Rule(cron="x", jitter_micros=-1)),
    ],
)
def test_what_makes_no_sense(name: str, rule: Rule) -> None:
    """Refused, with a hint or the value."""
    with pytest.raises(UsageError):
        check(name, rule)


def test_spans() -> None:
    """The two largest units."""
    assert [span(seconds * SECOND) for seconds in (0, 61, 7380, 90_000)] == ["0s", "1m 1s", "2h 3m", "1d 1h"]
