"""Schedules: what becomes of a slot. Pure: which slots there are is the almanac's knowledge, what happens to them is here.

A **slot** is a moment at which a schedule wants a run. It is *due* a little later if the schedule spreads its starts
(`delay`: the same for the same slot in every process). Slots are settled in order, in batches of all that are due:

- later than the schedule's **grace**: not fired any more;
- of the others `latest` fires the newest and coalesces the older ones into it, `all` fires the newest `up_to` of them,
  `skip` fires those that are within their grace, which for it is a minute unless it is given.

So after any pause, however long, a schedule starts a bounded number of runs (G20), and every slot has its fate and reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from torpor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

SECOND = 1_000_000
MOST_AT_ONCE = 100
"""So many missed slots at most are made up for, and kept as rows of their own; what is older shares one row."""
GRACE_OF_SKIP = 60 * SECOND
_LONGEST = 3660 * 86_400 * SECOND


class Missed(StrEnum):
    """What becomes of slots that nobody fired in time."""

    LATEST = "latest"
    SKIP = "skip"
    ALL = "all"


class Fate(IntEnum):
    """What became of a slot."""

    FIRED = 1
    SKIPPED = 2
    COALESCED = 3
    FAILED = 4

    @property
    def word(self) -> str:
        """Return the word people and programs see."""
        return self.name.lower()

    @property
    def sign(self) -> str:
        """Return its letter in a strip."""
        return "#-+x"[self - 1]


@dataclass(frozen=True, slots=True)
class Rule:
    """When, and what about missed slots. Either `cron` (five fields, wall clock of `zone`) or `every_micros`."""

    cron: str = ""
    every_micros: int = 0
    zone: str = "UTC"
    missed: Missed = Missed.LATEST
    up_to: int = 10
    """How many missed slots `all` makes up for."""
    grace_micros: int | None = None
    """A slot later than this is not fired any more; None: however late (a minute for `skip`)."""
    jitter_micros: int = 0
    """Each slot starts up to this much later, by its own lot."""
    stagger_micros: int = 0
    """All slots start up to this much later, by the lot of the schedule's name."""

    @property
    def latest_micros(self) -> int | None:
        """How late a slot may fire."""
        return GRACE_OF_SKIP if self.grace_micros is None and self.missed is Missed.SKIP else self.grace_micros

    @property
    def most(self) -> int:
        """How many slots may fire at once."""
        return {Missed.LATEST: 1, Missed.ALL: self.up_to, Missed.SKIP: MOST_AT_ONCE}[self.missed]


def check(name: str, rule: Rule) -> None:
    """Raise UsageError for a name or numbers that make no sense; cron and zone are the almanac's to judge."""
    if not name.replace("_", "").replace("-", "").replace(".", "").isalnum() or len(name) > 100:  # noqa: PLR2004 - said
        raise UsageError(f"a schedule cannot be named {name!r}", hint="up to 100 letters, digits, - _ .")
    if bool(rule.cron) == bool(rule.every_micros):
        raise UsageError(f"schedule {name} needs a cron line or an interval, one of them", hint='"0 9 * * 1-5"')
    if rule.every_micros and (rule.every_micros < SECOND or rule.every_micros % SECOND or rule.every_micros > _LONGEST):
        message = f"schedule {name}: every={rule.every_micros / SECOND:g} s is no interval"
        raise UsageError(message, hint="whole seconds, from one second to ten years")
    if not 1 <= rule.up_to <= MOST_AT_ONCE:
        raise UsageError(f"schedule {name}: up_to={rule.up_to} is not from 1 to {MOST_AT_ONCE}")
    for what, micros in (
        ("grace", rule.grace_micros),
        ("jitter", rule.jitter_micros),
        ("stagger", rule.stagger_micros),
    ):
        if micros is not None and not 0 <= micros <= _LONGEST:
            raise UsageError(f"schedule {name}: {what}={micros / SECOND:g} s is not from 0 to ten years")


def delay(name: str, rule: Rule, slot_at: int) -> int:
    """Return by how many microseconds a slot is due after its moment: the same in every process."""
    return _lot(name, rule.stagger_micros) + _lot(f"{name}\0{slot_at}", rule.jitter_micros)


def most_delay(rule: Rule) -> int:
    """Return the largest delay that a slot of a rule can have."""
    return rule.stagger_micros + rule.jitter_micros


def _lot(text: str, below: int) -> int:
    if below <= 0:
        return 0
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, person=b"torpor.slot").digest()
    return int.from_bytes(digest, "big") % below


class Older(NamedTuple):
    """Due slots that nobody looks at one by one any more: the first, the last, how many."""

    first_at: int
    last_at: int
    many: int


class Settled(NamedTuple):
    """A slot, or `many` slots from `slot_at` to `last_at`, and what becomes of them. FIRED: a run is to be started."""

    slot_at: int
    last_at: int
    many: int
    fate: Fate
    reason: str


def settle(
    rule: Rule, older: Older | None, due: Sequence[tuple[int, int]], *, now: int, more: bool = False
) -> list[Settled]:
    """Say what becomes of due slots, (moment, due moment) in order; `older` were due before them, `more` will be after them.

    Fires at most `rule.most`, the newest. Nothing here is early: whoever asks has compared due moments with `now` (G8).
    """
    late = rule.latest_micros
    able = [n for n, (_, due_at) in enumerate(due) if late is None or now - due_at <= late]
    firing = set(able[-rule.most :])
    settled = []
    if older is not None and late is not None and now - older.last_at > late + most_delay(rule):
        settled.append(Settled(*older, Fate.SKIPPED, f"missed, all past the grace of {span(late)}"))
    elif older is not None:
        settled.append(Settled(*older, *_passed_over(rule, bool(firing) or more, older.many)))
    for n, (slot_at, due_at) in enumerate(due):
        if n in firing:
            fate, reason = Fate.FIRED, ""
        elif n not in able:
            fate, reason = Fate.SKIPPED, f"{span(now - due_at)} late, past its grace of {span(late or 0)}"
        else:
            fate, reason = _passed_over(rule, fires=True, many=1)
        settled.append(Settled(slot_at, slot_at, 1, fate, reason))
    return settled


def _passed_over(rule: Rule, fires: bool, many: int) -> tuple[Fate, str]:  # noqa: FBT001 - both callers name it
    if rule.missed is Missed.LATEST and fires:
        return (
            Fate.COALESCED,
            "missed; a later slot stands for it" if many == 1 else "missed; a later one stands for all",
        )
    if rule.missed is Missed.ALL:
        return Fate.SKIPPED, f"missed; only the last {rule.up_to} are made up for"
    return Fate.SKIPPED, "missed"


def span(micros: int) -> str:
    """Return a length of time in its largest two units: `2h 3m`."""
    left, parts = max(0, micros) // SECOND, list[str]()
    for size, letter in ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")):
        if left >= size or (size == 1 and not parts):
            parts.append(f"{left // size}{letter}")
            left %= size
    return " ".join(parts[:2])
