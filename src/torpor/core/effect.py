"""Effects: what may be done again, by whom, and the last check before one starts.

commit(intent) -> gate -> run -> commit(outcome). What happens to an intent without an outcome depends on the safety that
stands on the effect's definition. A `repeatable` step and a `transactional` effect write no intent: the first may run
again, the second happens in the very transaction that records it.
"""

from __future__ import annotations

from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING

from torpor.core.lease import Fence, fence

if TYPE_CHECKING:
    from torpor.core.lease import Lease


class Safety(StrEnum):
    """What is known about doing it again: what a crash between intent and outcome may do to it."""

    REPEATABLE = "repeatable"
    KEYED = "keyed"
    VERIFY = "verify"
    ONCE = "once"
    TRANSACTIONAL = "transactional"

    @property
    def has_intent(self) -> bool:
        """Whether an intent is durable before the call starts (G4)."""
        return self in _WITH_INTENT

    @property
    def asks_life_lock(self) -> bool:
        """Whether the gate also asks the life lock: nothing else notices a copy made after the intent's answer."""
        return self in _ASKS_LIFE_LOCK


_WITH_INTENT = frozenset({Safety.KEYED, Safety.VERIFY, Safety.ONCE})
_ASKS_LIFE_LOCK = frozenset({Safety.VERIFY, Safety.ONCE})


class Resume(Enum):
    """What to do with a call that the journal knows about, or not."""

    RUN = auto()
    USE = auto()
    ASK = auto()
    UNKNOWN = auto()


def on_resume(safety: Safety, *, intent: bool, outcome: bool, holder_gone: bool) -> Resume:
    """Decide about a call after a takeover or a restart (G4, G5).

    `holder_gone` says that the worker which wrote the intent is dead, or reported that it dropped the run. Without it a
    `verify` answer "not done" proves nothing: the earlier holder may be just about to start.
    """
    if outcome:
        return Resume.USE
    if not intent or safety in {Safety.REPEATABLE, Safety.KEYED, Safety.TRANSACTIONAL}:
        return Resume.RUN
    if safety is Safety.VERIFY and holder_gone:
        return Resume.ASK
    return Resume.UNKNOWN


class After(Enum):
    """What an exception of a call means."""

    FAILED = auto()
    ASK = auto()
    UNKNOWN = auto()


def after_exception(safety: Safety, *, not_done: bool) -> After:
    """Decide what a raised exception says, unless the effect itself says that it did not happen.

    Of a `once` effect nobody knows whether it acted; a `verify` effect has a function to ask before anything is tried again.
    """
    if not_done:
        return After.FAILED
    return {Safety.ONCE: After.UNKNOWN, Safety.VERIFY: After.ASK}.get(safety, After.FAILED)


class Gate(Enum):
    """What the gate says, at the last moment before an effect starts."""

    GO = auto()
    STOP = auto()
    CANCELLED = auto()


def gate(
    row: Lease | None,
    *,
    token: int,
    epoch: int,
    head: int,
    same_incarnation: bool,
    life_lock_held: bool,
    undoing: bool = False,
) -> Gate:
    """Decide whether an effect whose intent is durable may start now (G2, G4, G12).

    With `undoing` it is a compensation of a cancelled run, which no cancel stops.
    `life_lock_held` is proven by a round trip for `once` and `verify`, and taken as true for the others.
    """
    if not same_incarnation or not life_lock_held:
        return Gate.STOP
    verdict = fence(row, token=token, epoch=epoch, head=head, has_intent=not undoing)
    return {Fence.HOLDS: Gate.GO, Fence.LOST: Gate.STOP, Fence.CANCELLED: Gate.CANCELLED}[verdict]


def may_do_again(*, holder_gone: bool) -> bool:
    """Whether "do it again" is free of the danger that the first attempt still starts; otherwise a person is warned."""
    return holder_gone


def effect_key(run: int, branch: int, turn: int, call: str) -> str:
    """Return the idempotency key of one logical call: equal in every attempt, worker, takeover and copy (G5).

    Derived, never random: blake2b over run, branch, turn and the call's own key. Another branch gets another key.
    """
    text = f"{run}\n{branch}\n{turn}\n{call}"
    from hashlib import blake2b  # of what an author imports only this would load it

    return blake2b(text.encode(), digest_size=16, person=b"torpor.effect").hexdigest()
