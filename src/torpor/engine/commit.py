"""The commit: the one way a run changes while somebody holds its lease.

A batch of proposals of different runs shares one transaction and one fsync (group commit). The protocol:

* a *hot* proposal (entries, and the signals they consume) reads nothing: the fence is in the statement that moves the
  head (G1, G2);
* whatever travels with entries (checkpoint, waits, rows, messages, taken signals, blobs) is written after the fence
  agreed, in the same transaction, for the winners only, so it becomes true together with them or not at all;
* a proposal that withdraws a wait of a person looks at the wait under the run's lock first: a decision that came before
  wins, and the proposal is refused with `answered` (G10);
* what became of each is told by its run, so a run is in a batch once: of two of them, one under a lease that ended, the
  refused one would be told what the other did (G3);
* a refused proposal changed nothing and does not disturb its neighbours. A statement that *fails* takes the whole batch
  with it; the committer then sends each proposal alone, so one bad commit fails alone.

* a proposal that writes to the run's stream is refused as lost if somebody else wrote there (`core.stream`, G2).

The order of locks in one transaction: runs by number, then leases by number (`Tx.append`, `Tx.leave`), then streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torpor.core.checkpoint import empties
from torpor.core.commit import broken_rule
from torpor.core.journal import Kind
from torpor.core.lease import LEASE_SECONDS, Fence, LostAnswer, after_lost_answer, fence
from torpor.core.run import FOLLOWED, Flag, State
from torpor.engine import budgets, events, streams
from torpor.store.history_rows import Emptying
from torpor.store.rows import Append, CompensationRow, Leave, RunChange, StateRow, WaitRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.core.commit import NewWait, Proposal
    from torpor.core.stream import StreamRow
    from torpor.store.protocol import Tx
    from torpor.store.rows import Left

LEASE_MICROS = round(LEASE_SECONDS * 1_000_000)
_ENDS_WELL = frozenset({State.COMPLETED, State.FAILED})


class Reply(NamedTuple):
    """What became of one proposal. `at` is the store's time of its entries.

    `refused` is None, or why nothing was written; `flags` and `state` are the run's afterwards. `answered`: nothing was
    written because somebody answered first; `early`: because a timer is not due by the store's clock. `n` is the counter of
    the run's stream if the proposal wrote to it.
    """

    at: int
    flags: Flag
    state: State
    refused: Fence | None = None
    answered: bool = False
    early: bool = False
    n: int = 0


def commit(tx: Tx, proposals: Sequence[Proposal], *, lease_micros: int = LEASE_MICROS) -> list[Reply]:
    """Commit a batch and reply to each proposal, in order. Raises only for defects and for the store's own troubles."""
    hot = True
    for proposal in proposals:
        rule = broken_rule(proposal)
        if rule is not None:
            raise AssertionError(rule)
        hot = hot and proposal.hot
    if len({proposal.run_id for proposal in proposals}) < len(proposals):
        raise AssertionError(f"G3: a run is twice in one batch: {sorted(proposal.run_id for proposal in proposals)}")
    if hot and proposals:
        return _commit_hot(tx, proposals, lease_micros)
    matches = {w.matches for p in proposals for w in p.waits if w.matches is not None}
    if matches:
        tx.lock_matches(sorted(matches))  # before any run: a wait that is registered now misses no event
    answered = _answered_first(tx, [p for p in proposals if p.closes or p.looked or _registers(p)])
    early = {p.run_id for p in proposals if p.not_before and tx.now() < p.not_before}
    spoken = [p for p in proposals if p.stream is not None]
    known, behind = _streams(tx, proposals, spoken) if spoken else ({}, set[int]())
    still = answered | early | behind
    going = [p for p in proposals if p.run_id not in still]
    stays = [p for p in going if p.after is State.RUNNING]
    leaves = [p for p in going if p.after is not State.RUNNING]
    if stays and leaves and not spoken:
        tx.fence_order([p.run_id for p in leaves], [p.run_id for p in going])
    kept = tx.append([_append(p) for p in stays], lease_micros=lease_micros) if stays else {}
    left = tx.leave([_leave(p) for p in leaves]) if leaves else {}
    if left:
        _tell(tx, left)
    winners = [p for p in going if (p.taken or not p.hot) and (p.run_id in kept or p.run_id in left)]
    counters = _carry(tx, winners, known) if winners else {}
    refused = [p for p in going if p.run_id not in kept and p.run_id not in left]
    reasons = _reasons(tx, refused) if refused else {}
    now = tx.now()
    return [
        _reply(p, now, kept, left, reasons, counters)
        if p.run_id not in still
        else Reply(now, Flag.NONE, State.RUNNING, _LOST[p.run_id in behind], p.run_id in answered, p.run_id in early)
        for p in proposals
    ]


_LOST = {True: Fence.LOST, False: None}


def _commit_hot(tx: Tx, proposals: Sequence[Proposal], lease_micros: int) -> list[Reply]:
    """Commit entries and the signals they consume, which is most of what is committed: the fence is all there is to ask."""
    tx.alone()  # one statement, one round trip, one fsync
    rows = [_append(p)._replace(taken=p.taken) if p.taken else _append(p) for p in proposals]
    kept = tx.append(rows, lease_micros=lease_micros)
    refused = [p for p in proposals if p.run_id not in kept] if len(kept) < len(proposals) else []
    reasons = _reasons(tx, refused) if refused else {}
    now = tx.now()
    unflagged = Reply(now, Flag.NONE, State.RUNNING)
    return [unflagged if kept.get(p.run_id) is Flag.NONE else _reply(p, now, kept, {}, reasons, {}) for p in proposals]


def _reply(
    proposal: Proposal,
    now: int,
    kept: dict[int, Flag],
    left: dict[int, Left],
    reasons: dict[int, tuple[Fence, Flag]],
    counters: dict[int, int],
) -> Reply:
    run_id = proposal.run_id
    if run_id in kept:
        return Reply(now, kept[run_id], State.RUNNING, n=counters.get(run_id, 0))
    if run_id in left:
        return Reply(now, Flag.NONE, left[run_id].state, n=counters.get(run_id, 0))
    reason, flags = reasons[run_id]
    return Reply(now, flags, State.RUNNING, reason)


def _tell(tx: Tx, left: dict[int, Left]) -> None:
    states = {one.state for one in left.values()}
    if State.READY in states:
        tx.hint("ready")
    if any(state.final for state in states):
        tx.hint("ended")
    followed = [run_id for run_id, one in left.items() if one.state.final and one.flags & FOLLOWED]
    if followed:  # others must learn of it: not in this transaction, which touches no run but its own
        tx.add_follow_ups(followed)
        tx.hint("follow-ups")


def _append(p: Proposal) -> Append:
    ends_well = p.after in _ENDS_WELL  # once cancel is acknowledged a run ends as cancelled (G12)
    return Append(p.run_id, p.token, p.epoch, p.head, p.has_intent or ends_well, p.entries)


def _leave(p: Proposal) -> Leave:
    flags = (Flag.PERSON if p.needs_person else Flag.NONE) | (Flag.UNDOING if p.undoing else Flag.NONE)
    return Leave(_append(p), p.after, p.seen, p.due_at, flags)


def _answered_first(tx: Tx, proposals: Sequence[Proposal]) -> set[int]:
    """Return the runs whose proposal would end a wait that somebody answered first (G7, G10)."""
    if not proposals:
        return set()
    ids = sorted(p.run_id for p in proposals)
    runs = tx.get_runs(ids, lock=True)
    unseen = {p.run_id for p in proposals if p.looked and p.run_id in runs and runs[p.run_id].inbox > p.seen}
    decided = {(w.run_id, w.slot, w.seq) for w in tx.waits(ids) if w.answered_at is not None}
    return unseen | {p.run_id for p in proposals if any((p.run_id, slot, seq) in decided for slot, seq in p.closes)}


def _registers(proposal: Proposal) -> bool:
    return any(wait.matches is not None for wait in proposal.waits)


def _streams(
    tx: Tx, proposals: Sequence[Proposal], spoken: Sequence[Proposal]
) -> tuple[dict[int, StreamRow], set[int]]:
    """Lock what a batch needs that writes to streams; return them and the runs where somebody else wrote (G2)."""
    leaving = [p.run_id for p in proposals if p.after is not State.RUNNING]
    tx.fence_order(leaving, [p.run_id for p in proposals])
    return streams.behind(tx, spoken)


def _carry(tx: Tx, winners: Sequence[Proposal], known: dict[int, StreamRow]) -> dict[int, int]:
    """Write everything that travels with the entries of proposals that passed the fence; return counters of streams."""
    now = tx.now()
    blobs = [(p.run_id, blob) for p in winners for blob in p.blobs]
    states = [_checkpoint(p, now) for p in winners if p.state_body is not None]
    moved = [RunChange(p.run_id, program=p.program) for p in winners if p.program is not None]
    over = [(p.run_id, slot) for p in winners for slot in (*p.over, *(slot for slot, _ in p.closes))]
    waits = [_wait_row(p, wait) for p in winners for wait in p.waits]
    taken = [(p.run_id, seq) for p in winners for seq in p.taken]
    rows = [(p.run_id, row) for p in winners for row in p.rows]
    messages = [(p.run_id, message) for p in winners for message in p.messages]
    if blobs:
        tx.put_blobs(blobs)
    if states:
        _keep_history(tx, winners)
        tx.put_states(states)
    if moved:
        tx.change_runs(moved)
    if over:
        tx.end_waits(over)
    if waits:
        tx.put_waits(waits)
    if taken:
        tx.take_signals(taken)
    if rows:
        tx.add_rows(rows)
    settles = [(p.run_id, hold, cost) for p in winners for hold, cost in p.settles]
    if settles:
        budgets.settle(tx, settles)
    spenders = sorted(p.run_id for p in winners if p.spends)
    if spenders:
        budgets.close(tx, spenders)
    _carry_compensations(tx, winners)
    if messages:
        tx.add_messages(messages)
        tx.hint("outbox")
    replies = [(p.run_id, reply) for p in winners for reply in p.replies]
    if replies:
        tx.put_replies(replies)
        tx.hint("reply")
    _register(tx, winners, waits)
    said = [(p.run_id, p.epoch, p.stream, p.view) for p in winners if p.stream is not None or p.view is not None]
    return streams.write(tx, said, known) if said else {}


def _carry_compensations(tx: Tx, winners: Sequence[Proposal]) -> None:
    registering = [p for p in winners if p.compensations]
    if registering:
        rows = []
        for p in registering:
            places = {entry.key: n for n, entry in enumerate(p.entries, start=p.head + 1)}
            rows += [CompensationRow(p.run_id, places[new.key], new.ref, new.body) for new in p.compensations]
        tx.add_compensations(rows)
    dropped = [(p.run_id, ref) for p in winners for ref in p.dropped]
    if dropped:
        tx.drop_compensations(dropped)


def _keep_history(tx: Tx, winners: Sequence[Proposal]) -> None:
    """Keep the input of runs that checkpoint for the first time; empty old checkpoints and outcomes, now and then."""
    inputs = [(p.run_id, p.input_key) for p in winners if p.input_key is not None]
    if inputs:
        tx.keep_inputs(inputs)
    crowded = [
        Emptying(p.run_id, p.keep + 1, p.told_in_rows)
        for p in winners
        if p.state_body is not None and empties(p.turn, p.keep, told_in_rows=p.told_in_rows)
    ]
    if crowded:
        tx.empty_checkpoints(crowded)


def _wait_row(p: Proposal, wait: NewWait) -> WaitRow:
    seq = p.head + wait.seq if wait.fresh else wait.seq
    return WaitRow(p.run_id, wait.slot, seq, wait.kind, wait.due_at, None, wait.title, None)._replace(
        need=wait.need, members=wait.members, matches=wait.matches
    )


def _register(tx: Tx, winners: Sequence[Proposal], waits: Sequence[WaitRow]) -> None:
    """Let waits for events find those that were published before (G7)."""
    proposals = {p.run_id: p for p in winners}
    for row in waits:
        if row.matches is not None:
            p = proposals[row.run_id]
            events.registered(tx, row, p.entries[row.seq - p.head - 1].body)


def _checkpoint(p: Proposal, now: int) -> StateRow:
    place = next(n for n, entry in enumerate(p.entries, start=1) if entry.kind is Kind.CHECKPOINT)
    return StateRow(p.run_id, p.head + place, now, p.turn, p.state_body or b"")


def _reasons(tx: Tx, refused: Sequence[Proposal]) -> dict[int, tuple[Fence, Flag]]:
    """Say why each was refused: pair of the store's `WHERE` (G1)."""
    leases = tx.leases([p.run_id for p in refused])
    reasons: dict[int, tuple[Fence, Flag]] = {}
    for p in refused:
        row = leases.get(p.run_id)
        append = _append(p)
        reason = fence(row, token=p.token, epoch=p.epoch, head=p.head, has_intent=append.forbids_cancel)
        if reason is Fence.HOLDS:
            message = f"G1: the store refused what the core allows: run {p.run_id} at head {p.head}, lease {row}"
            raise AssertionError(message)
        reasons[p.run_id] = (reason, row.flags if row is not None else Flag.NONE)
    return reasons


def find_out(tx: Tx, proposal: Proposal) -> tuple[LostAnswer, Reply]:
    """Find out whether a commit whose answer was lost happened (G3).

    To be called on a connection opened after the loss, after the life lock was proven, in this order.
    """
    run_id = proposal.run_id
    lease = tx.leases([run_id]).get(run_id)
    above = tx.journal(run_id, after=proposal.head)
    verdict = after_lost_answer(
        lease,
        above,
        token=proposal.token,
        epoch=proposal.epoch,
        head=proposal.head,
        entries=proposal.entries,
        ends_stretch=proposal.after is not State.RUNNING,
    )
    run = tx.get_runs([run_id]).get(run_id)
    at = above[0].at if above else tx.now()
    flags = lease.flags if lease is not None else Flag.NONE
    stream = tx.streams([run_id]).get(run_id) if proposal.stream is not None else None
    n = stream.n if stream is not None else 0
    return verdict, Reply(at, flags, run.state if run is not None else State.CANCELLED, n=n)
