"""How a stretch or a turn ends: what the last commit of each kind of ending carries.

Each function returns what completes a proposal at the moment it is built, because what was gathered by then (outcomes,
notes, waits) travels along, and because a refused proposal is completed anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torpor.blobs.rows import pack
from torpor.core.checkpoint import Mark
from torpor.core.commit import NewRow, NewWait, Proposal
from torpor.core.family import counted
from torpor.core.journal import Entry, Kind
from torpor.core.run import State
from torpor.core.wait import WaitKind
from torpor.errors import BudgetExceeded, ChildFailed, Interrupted, StepFailed, UsageError
from torpor.sdk.flow import rows_of
from torpor.sdk.rows import seal
from torpor.store.rows import WaitRow
from torpor.worker import interrupting
from torpor.worker.calls import described
from torpor.worker.draft import TITLE_LETTERS
from torpor.worker.places import place_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from torpor.core.wait import Open
    from torpor.worker.roles import Executor, Turn

Last = Callable[[Proposal], None]
_OF_CALLS = (StepFailed, ChildFailed, Interrupted, BudgetExceeded)


def failure(error: BaseException) -> dict[str, Any]:
    """Return what is kept of the error a run ends with: a retry supersedes the `calls` it came from."""
    calls = sorted(_causes(error, set()))
    return described(error) | {"where": place_of(error), "calls": calls}


def _causes(error: BaseException | None, seen: set[int]) -> set[str]:
    """Return the keys of the failed calls an error came from: itself, its causes, the members of a group."""
    if error is None or id(error) in seen:
        return set()
    seen.add(id(error))
    found = {error.call} if isinstance(error, _OF_CALLS) and error.call else set()
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    for one in (error.__cause__, error.__context__, *inner):
        found |= _causes(one, seen)
    return found


def forgotten(turn: Turn) -> UsageError | None:
    """Return what to say of a call that was made and never awaited: it did not happen, and somebody thinks it did."""
    for what, name in turn.unbegun.values():
        return UsageError(f"ctx.{what}({name}) was called and never awaited", hint=f"await ctx.{what}(...)")
    return None


def checkpoint(executor: Executor, state: Any, turn: int) -> Last:
    """End turn number `turn` with a state. Raises UnstorableValue, with the path."""
    encode = executor.bodies.encode
    rows: list[NewRow] = []
    for field, appended in rows_of(state):
        first, new = seal(appended)
        rows += [NewRow(field, n, pack(encode(item, f"state.{field}[{n}]"))) for n, item in enumerate(new, start=first)]
    body = encode(state, "state")
    interrupts = [signal.seq for signal in interrupting.take(executor)] if executor.interrupts else []
    keep, branch = executor.flow.keep_checkpoints, executor.run.branch
    moves = executor.version != executor.flow.version
    program = executor.worker.program_number(executor.run.program) if moves else executor.run.program
    mark = Mark(turn + 1, program, branch)
    entry = Entry(Kind.CHECKPOINT, mark.text, body if keep else None)

    def last(proposal: Proposal) -> None:
        proposal.entries = [*proposal.entries, entry]
        proposal.state_body, proposal.turn, proposal.rows, proposal.keep = body, turn + 1, rows, keep
        proposal.told_in_rows = executor.flow.told_in_rows
        proposal.taken = [*proposal.taken, *interrupts]
        if turn == 1 and keep:
            proposal.input_key = Mark(1, executor.run.program, branch).text
        _end_waits(executor, proposal)
        if moves:
            proposal.program = program

    return last


def finish(executor: Executor, state: State, entry: Entry) -> Last:
    """End the run."""

    def last(proposal: Proposal) -> None:
        proposal.entries = [*proposal.entries, entry]
        proposal.after = state
        _end_waits(executor, proposal)

    return last


def _end_waits(executor: Executor, proposal: Proposal) -> None:
    """A turn's waits end with it; those of people are withdrawn with care: a decision may have come first (G10)."""
    rows = executor.rows.values()
    asked = [(row.slot, row.seq) for row in rows if row.kind.for_person and row.answered_at is None]
    proposal.waits = ()  # opened and over in one
    proposal.spends = executor.spends
    proposal.closes = [*proposal.closes, *asked]
    proposal.over = [*proposal.over, *(row.slot for row in rows)]


def give_back(executor: Executor, why: str) -> Last:
    """Give the lease up for somebody else to go on at once."""
    note = Entry(Kind.NOTE, None, executor.bodies.encode({"note": why}, "note"))

    def last(proposal: Proposal) -> None:
        proposal.entries = [*proposal.entries, note]
        proposal.after = State.READY

    return last


def later(executor: Executor, why: str, micros: int) -> Last:
    """Put the run away for a while, its waits as they are: what it needs cannot be read now."""
    note = Entry(Kind.NOTE, None, executor.bodies.encode({"note": why}, "note"))
    asked = any(row.kind.for_person and row.answered_at is None for row in executor.rows.values())

    def last(proposal: Proposal) -> None:
        proposal.entries = [*proposal.entries, note]
        proposal.after, proposal.due_at = State.WAITING, executor.worker.now() + micros
        proposal.needs_person = asked or bool(proposal.waits)

    return last


def suspend(executor: Executor, waits: list[Open], titles: list[str], due_at: int | None) -> Last:
    """Put the run away until one of its waits is satisfied."""
    entry = Entry(Kind.WAIT, None, executor.bodies.encode({"for": titles}, "waits"))

    def last(proposal: Proposal) -> None:
        proposal.entries = [*proposal.entries, entry]
        proposal.after, proposal.due_at = State.WAITING, due_at
        proposal.needs_person = any(wait.kind.for_person for wait in waits)
        _write_waits(executor, proposal, waits, titles)

    return last


def _write_waits(executor: Executor, proposal: Proposal, waits: list[Open], titles: list[str]) -> None:
    """Write the waits that no entry of their own made known; slots of those that are over are used again."""
    kept = {row.slot for row in executor.rows.values() if row.kind.lasting} | {w.slot for w in proposal.waits}
    kept -= set(proposal.over)
    fresh = [(wait, title) for wait, title in zip(waits, titles, strict=True) if not wait.kind.lasting]
    free = [slot for slot in range(len(kept) + len(fresh)) if slot not in kept][: len(fresh)]
    place, here = len(proposal.entries), {signal.name for signal in executor.unread}
    written = [_new_wait(slot, place, wait, title, here) for slot, (wait, title) in zip(free, fresh, strict=True)]
    proposal.waits = [*proposal.waits, *written]
    proposal.over = [*proposal.over, *(slot for slot in executor.rows if slot not in kept and slot not in free)]


def _new_wait(slot: int, place: int, wait: Open, title: str, here: Collection[str]) -> NewWait:
    need, members = counted(wait.names, here) if wait.names else (0, None)
    return NewWait(slot, place, wait.kind, wait.due_at, title[:TITLE_LETTERS], need=need, members=members)


def note_waits(executor: Executor, proposal: Proposal, head: int) -> None:
    """Know the waits that a commit at `head` has written and ended."""
    for slot in (*proposal.over, *(slot for slot, _ in proposal.closes)):
        executor.rows.pop(slot, None)
    for w in proposal.waits:
        seq = head + w.seq if w.fresh else w.seq
        executor.rows[w.slot] = WaitRow(executor.run.id, w.slot, seq, w.kind, w.due_at, None, w.title, None)


def trouble(executor: Executor, kind: str, title: str, more: dict[str, Any], asked: WaitRow | None) -> Last:
    """Put the run away for a person. `asked` is the question about the run as a whole that is still open from before.

    The same question is not asked twice, another one is replaced. What calls asked stays, answered or not (G10).
    """
    same = asked is not None and asked.title == title[:TITLE_LETTERS]
    entry = Entry(Kind.WAIT, None, executor.bodies.encode({"trouble": kind, "title": title, **more}, "trouble"))

    def last(proposal: Proposal) -> None:
        proposal.entries = [*proposal.entries, entry]
        proposal.after, proposal.needs_person = State.WAITING, True
        if not same:
            proposal.over = [*proposal.over, *([] if asked is None else [asked.slot])]
            used = (set(executor.rows) - set(proposal.over)) | {wait.slot for wait in proposal.waits}
            slot = next(n for n in range(len(used) + 1) if n not in used)
            question = NewWait(slot, len(proposal.entries), WaitKind.ATTENTION, None, title[:TITLE_LETTERS])
            proposal.waits = [*proposal.waits, question]

    return last


def settle_late(executor: Executor) -> None:
    """What an effect gave back and could not be recorded any more answers the question it left (G18)."""
    for entry in executor.commits.unrecorded():
        call = executor.progress.effects.going.get(entry.key or "")
        if call is not None and entry.kind is Kind.OUTCOME:
            executor.worker.outside.settle_late(executor, call, executor.bodies.decode(entry.body), None)
