"""Wrong rules: each leaves out what one bold sentence of the protocol asks for. They are made of the right ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.exploration import rules as rule
from torpor.core import effect, lease, replay
from torpor.core.effect import Gate, Resume, Safety
from torpor.core.journal import Kind
from torpor.core.lease import Fence, LostAnswer, Proof
from torpor.core.run import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.core.commit import Proposal
    from torpor.core.journal import Entry, Stored
    from torpor.core.lease import Lease
    from torpor.core.wait import Delivery


def fence_without_token(row: Lease | None, *, token: int, epoch: int, head: int, has_intent: bool) -> Fence:
    """An epoch is taken for unique although a database may issue it again."""
    same = None if row is None else row._replace(token=token)
    return lease.fence(same, token=token, epoch=epoch, head=head, has_intent=has_intent)


def fence_without_epoch(row: Lease | None, *, token: int, epoch: int, head: int, has_intent: bool) -> Fence:
    """Whoever had the run once may go on."""
    same = None if row is None else row._replace(token=token, epoch=epoch)
    return lease.fence(same, token=token, epoch=epoch, head=head, has_intent=has_intent)


def fence_without_head(row: Lease | None, *, token: int, epoch: int, head: int, has_intent: bool) -> Fence:
    """The lease alone allows a commit: copies have it too."""
    same = None if row is None else row._replace(head=head)
    return lease.fence(same, token=token, epoch=epoch, head=head, has_intent=has_intent)


def fence_without_cancel(row: Lease | None, *, token: int, epoch: int, head: int, has_intent: bool) -> Fence:
    """An intent is accepted although cancel was asked."""
    return lease.fence(row, token=token, epoch=epoch, head=head, has_intent=has_intent and False)


def gate_without_store(
    row: Lease | None, *, token: int, epoch: int, head: int, same_incarnation: bool, life_lock_held: bool
) -> Gate:
    """Believe what the process remembers of its lease."""
    del row, token, epoch, head
    return Gate.GO if same_incarnation and life_lock_held else Gate.STOP


def gate_without_life_lock(
    row: Lease | None, *, token: int, epoch: int, head: int, same_incarnation: bool, life_lock_held: bool
) -> Gate:
    """Forget that a copy has the lease's token, epoch and head as well."""
    del life_lock_held
    return effect.gate(row, token=token, epoch=epoch, head=head, same_incarnation=same_incarnation, life_lock_held=True)


def digest_alone(
    lease_row: Lease | None, after_head: Sequence[Stored], *, entries: Sequence[Entry], **others: object
) -> LostAnswer:
    """Equal content at that head is taken for one's own."""
    del lease_row, others
    if not after_head:
        return LostAnswer.SEND_AGAIN
    equal = [tuple(stored)[3:] for stored in after_head[: len(entries)]] == [tuple(entry) for entry in entries]
    return LostAnswer.HAPPENED if equal else LostAnswer.LEASE_LOST


def lease_not_asked(
    lease_row: Lease | None,
    after_head: Sequence[Stored],
    *,
    token: int,
    epoch: int,
    head: int,
    entries: Sequence[Entry],
    ends_stretch: bool,
) -> LostAnswer:
    """Epoch and content say that it happened; whether the run was taken away since is not looked at."""
    del lease_row, token, head, ends_stretch
    if not after_head:
        return LostAnswer.SEND_AGAIN
    mine = [stored.same_as(entry, epoch=epoch) for stored, entry in zip(after_head, entries, strict=False)]
    return LostAnswer.HAPPENED if mine and all(mine) else LostAnswer.LEASE_LOST


def reapable_on_any_lock(row: Lease, *, now: int, proof: Proof, open_intent: bool, quiet_until: int) -> bool:
    """A life lock that is gone is taken for a process that is gone."""
    del open_intent
    return lease.reapable(row, now=now, proof=proof, open_intent=False, quiet_until=quiet_until)


def reapable_at_once(row: Lease, *, now: int, proof: Proof, open_intent: bool, quiet_until: int) -> bool:
    """Every connection broke when the database failed over; all that lived is thought dead."""
    del quiet_until
    return lease.reapable(row, now=now, proof=proof, open_intent=open_intent, quiet_until=0)


def renewal_looks_always(row_head: int, *, sent_head: int, in_flight: bool) -> bool:
    """A head moved by the worker's own commit is taken for a stranger's."""
    del in_flight
    return lease.stranger_wrote(row_head, sent_head=sent_head, in_flight=False)


def verify_without_proof(safety: Safety, *, intent: bool, outcome: bool, holder_gone: bool) -> Resume:
    """`f` is asked although the earlier holder may be about to start."""
    del holder_gone
    return effect.on_resume(safety, intent=intent, outcome=outcome, holder_gone=True)


def once_runs_again(safety: Safety, *, intent: bool, outcome: bool, holder_gone: bool) -> Resume:
    """An intent without an outcome is simply done again."""
    what = effect.on_resume(safety, intent=intent, outcome=outcome, holder_gone=holder_gone)
    return Resume.RUN if what is Resume.UNKNOWN else what


def again_without_warning(*, holder_gone: bool) -> bool:
    """A person is not told that the first attempt may still start."""
    return holder_gone or True


def parked_blind_to_inbox(*, inbox: int, seen: int, cancel: bool) -> State:
    """What came between the claim and the suspend is not looked at."""
    del seen
    return State.READY if cancel or inbox < 0 else State.WAITING


def woken_only_by_inbox(*, inbox: int, seen: int, cancel: bool) -> State:
    """Cancel wakes nobody."""
    return State.READY if inbox > seen and not cancel else State.WAITING


def loser_takes_too(delivery: Delivery, unread: tuple[int, ...]) -> tuple[int, ...]:
    """The timer won, and the signal that came after it is gone as well."""
    del delivery
    return unread


def key_with_epoch(attempt: rule.Attempt) -> str:
    """A takeover gives the same call another key."""
    return rule.key_of(attempt._replace(call=f"{attempt.call} {attempt.epoch}"))


def only_intents_refused(proposal: Proposal) -> bool:
    """A transactional effect writes no intent, so cancel does not hold it."""
    return any(entry.kind is Kind.INTENT for entry in proposal.entries) or proposal.after.final


def ends_anyway(proposal: Proposal) -> bool:
    """A cancelled run may still complete."""
    return proposal.has_intent


def no_timer(waits: object) -> int | None:
    """The run's row does not say when its timer is due."""
    return None if waits else 0


class ForgetfulReplay(replay.Replay):
    """A replay that does not know what was consumed."""

    def __init__(self, entries: Sequence[Stored]) -> None:
        """Leave the consumed entries out."""
        super().__init__(entry for entry in entries if entry.kind is not Kind.CONSUMED)
