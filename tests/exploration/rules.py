"""What the small world asks before it does anything.

The first half are the core's own functions. The second half is what no single function says: the order in which a worker
acts and what it looks at first. A mutation is a `Rules` with one field replaced by a wrong one; everything else in the
world stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from torpor.core import commit, effect, lease, replay, run, wait

if TYPE_CHECKING:
    from collections.abc import Callable

    from torpor.core.commit import Proposal
    from torpor.core.effect import Gate, Resume
    from torpor.core.lease import Fence, Lease, LostAnswer, Proof
    from torpor.core.run import Flag, State
    from torpor.core.wait import Delivery


class Recovery(Enum):
    """One act of a worker whose connection broke with a commit under way."""

    OPEN = auto()
    PROVE = auto()
    READ = auto()


class Attempt(NamedTuple):
    """What could go into an effect's key."""

    branch: int
    turn: int
    call: str
    epoch: int


def key_of(attempt: Attempt) -> str:
    """Return the key of an attempt: all attempts of one call share it (G5)."""
    return effect.effect_key(1, attempt.branch, attempt.turn, attempt.call)


def taken(delivery: Delivery, unread: tuple[int, ...]) -> tuple[int, ...]:
    """Return which unread signals a consumed entry takes: the one that won, or none."""
    del unread
    return () if delivery.signal is None else (delivery.signal.seq,)


def still_reapable(row: Lease | None, *, selected: int, reapable: bool) -> bool:
    """Say, under the run's lock, whether what a sweep selected is still so."""
    return row is not None and row.epoch == selected and reapable


def refused_once_cancelled(proposal: Proposal) -> bool:
    """Say whether a commit is refused after cancel: what makes an effect possible, and an end that is not `cancelled`."""
    return proposal.has_intent or proposal.after in {run.State.COMPLETED, run.State.FAILED}


@dataclass(frozen=True, slots=True)
class Rules:
    """Every decision of the small world."""

    fence: Callable[..., Fence] = lease.fence
    stranger_wrote: Callable[..., bool] = lease.stranger_wrote
    reapable: Callable[..., bool] = lease.reapable
    after_lost_answer: Callable[..., LostAnswer] = lease.after_lost_answer
    gate: Callable[..., Gate] = effect.gate
    on_resume: Callable[..., Resume] = effect.on_resume
    may_do_again: Callable[..., bool] = effect.may_do_again
    parked_as: Callable[..., State] = run.parked_as
    may_follow: Callable[[State, State], bool] = run.may_follow
    next_delivery: Callable[..., Delivery | None] = wait.next_delivery
    due_at: Callable[..., int | None] = wait.due_at
    may_fire: Callable[..., bool] = wait.may_fire
    broken_rule: Callable[[Proposal], str | None] = commit.broken_rule
    replay: type[replay.Replay] = replay.Replay
    key_of: Callable[[Attempt], str] = key_of

    refused_once_cancelled: Callable[[Proposal], bool] = refused_once_cancelled
    early: Callable[[int, int], bool] = lambda now, not_before: now < not_before
    recovery: tuple[Recovery, ...] = (Recovery.OPEN, Recovery.PROVE, Recovery.READ)
    next_epoch: Callable[[int], int] = lambda epoch: epoch + 1
    cancelled_at_claim: Callable[[Flag], bool] = lambda flags: run.Flag.CANCEL in flags
    connection_usable: Callable[[int, int], bool] = lambda opened_in, lives_in: opened_in == lives_in
    taken: Callable[[Delivery, tuple[int, ...]], tuple[int, ...]] = taken
    still_reapable: Callable[..., bool] = still_reapable
    still_due: Callable[[bool], bool] = lambda due: due
    again_writes_intent: bool = True
    """Whether who does a `verify` effect again writes an intent of its own first."""
    proves_process: Callable[[Proof], bool] = lambda proof: proof is lease.Proof.PROCESS_GONE
