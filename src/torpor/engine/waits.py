"""What wakes a run: signals, decisions of people, time, and messages of other runs (G7, G8, G10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torpor.core import reply
from torpor.core.run import Flag, State
from torpor.core.wait import WaitKind, may_fire
from torpor.engine import family, lines
from torpor.engine.large import name_by
from torpor.engine.sweeps import Swept
from torpor.errors import Conflict, NotFound, UsageError
from torpor.store import values
from torpor.store.rows import Kept, NewSignal, RunChange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.store.protocol import Tx
    from torpor.store.rows import MessageRow, WaitRow

SWEEP = 500


def signal(tx: Tx, signals: Sequence[NewSignal]) -> list[Kept]:
    """Keep signals for runs and wake those that wait. An equal key is one signal, however often it comes.

    A transaction of its own: it is committed with its one statement.
    """
    tx.alone()
    return keep(tx, signals)


def keep(tx: Tx, signals: Sequence[NewSignal]) -> list[Kept]:
    """Do the same inside a transaction that does more. Runs are locked in order of number."""
    tx.hint("ready", *{f"run:{s.run_id}" for s in signals})
    return tx.add_signals(signals)


class Decided(NamedTuple):
    """A decision that is durable now: the wait it ended."""

    wait: WaitRow


def open_wait(tx: Tx, run_id: int, seq: int) -> WaitRow:
    """Return the wait that entry `seq` opened, ended ones included. Raises NotFound."""
    for wait in tx.waits([run_id], over=True):
        if wait.seq == seq:
            return wait
    message = "there is no such wait, or it ended long ago"
    raise NotFound(message, hint="torpor inbox lists what is open")


def answer(tx: Tx, run_id: int, seq: int, body: bytes, *, kinds: frozenset[WaitKind]) -> Decided:
    """Write a person's decision; the first one wins (G10).

    Raises NotFound, UsageError for a wait of another kind, Conflict if somebody was first, it expired, or the run went
    on without it. `Conflict` carries nothing of the winner: read the wait again for that.
    """
    run = tx.get_runs([run_id], lock=True).get(run_id)
    if run is None:
        message = "there is no such run"
        raise NotFound(message, hint="torpor inbox lists what is open")
    wait = open_wait(tx, run_id, seq)
    if wait.kind not in kinds:
        message = f"this wait is for {wait.kind.word}: {wait.title}"
        raise UsageError(message, hint="torpor inbox says which command answers it")
    if wait.answered_at is not None:
        message = "somebody was first"
        raise Conflict(message, hint="nothing was changed")
    if wait.over or run.state.final:
        message = "the run went on without an answer"
        raise Conflict(message, hint="nothing was changed")
    if wait.due_at is not None and wait.due_at <= tx.now():
        message = "it expired before this answer came"
        raise Conflict(message, hint="nothing was changed")
    if not tx.answer_wait(run_id, wait.slot, seq, body):
        message = "somebody was first"
        raise Conflict(message, hint="nothing was changed")
    waiting = run.state is State.WAITING
    tx.change_runs([RunChange(run_id, State.READY if waiting else None, tx.now() if waiting else None, inbox=1)])
    tx.hint("ready")
    tx.hint(f"run:{run_id}")
    return Decided(wait)


def fire_timers(tx: Tx, *, limit: int = SWEEP) -> Swept:
    """Make due runs ready, a bounded number. Checked again under each run's lock (G8, G20)."""
    ids = tx.due_runs(before=tx.now(), limit=limit)
    done = _fire(tx, ids) if ids else 0
    return Swept(done, done >= limit, tx.next_due() or 0)


def _fire(tx: Tx, ids: Sequence[int]) -> int:
    now = tx.now()
    runs = tx.get_runs(sorted(ids), lock=True, skip_locked=True)
    due = [run for run in runs.values() if may_fire(run.due_at, now=now, waiting=run.state is State.WAITING)]
    later = [run for run in due if Flag.LINE in run.flags and run.epoch == 0]  # its moment came, not its turn yet
    if later:
        lines.arrive(tx, later)
    ready = [run for run in due if not (Flag.LINE in run.flags and run.epoch == 0)]
    if ready:
        tx.change_runs([RunChange(run.id, state=State.READY, due_at=run.due_at) for run in ready])
        tx.hint("ready")
    return len(due)


def deliver(tx: Tx, *, limit: int = SWEEP) -> Swept:
    """Take messages from the outbox to their runs, and start the children that were asked for.

    The message's key makes it arrive once, however often this is interrupted. One for a run that ended or never was is
    dropped; a sender that waits for the answer is told.
    """
    messages = tx.outbox(limit=limit)
    if not messages:
        return Swept()
    spawns = [message for message in messages if message.kind.spawns]
    signals = sorted((m for m in messages if not m.kind.spawns), key=lambda message: (message.target, message.id))
    if spawns:
        touched = {*(message.run_id for message in spawns), *(message.target for message in signals)}
        family.start_children(tx, spawns, tx.get_runs(sorted(touched), lock=True))
    if signals:
        kept = _hand_over(tx, signals)
        name_by(tx, [(m.body, m.target) for m, one in zip(signals, kept, strict=True) if one is Kept.NEW])
    tx.drop_messages([message.id for message in messages])
    return Swept(len(messages), len(messages) >= limit)


_NOT_KEPT = frozenset({Kept.FINAL, Kept.NO_RUN})


def _sender(message: MessageRow) -> str:
    """Return who sent a message, with the address of the answer if somebody waits for one."""
    sender = f"run:{message.run_id}"
    if not reply.is_request(message.key) or message.name.startswith("~"):
        return sender
    return reply.with_address(sender, reply.Address(message.run_id, message.key))


def _hand_over(tx: Tx, signals: Sequence[MessageRow]) -> list[Kept]:
    """Keep messages for their runs; a run that asked one that has ended, or never was, is told that nobody will answer."""
    requests = [m for m in signals if reply.is_request(m.key) and not m.name.startswith("~")]
    if requests:
        tx.get_runs(sorted({run for m in signals for run in (m.target, m.run_id)}), lock=True)
    kept = keep(tx, [NewSignal(m.target, m.name, m.body, m.key, _sender(m)) for m in signals])
    for message, fate in zip(signals, kept, strict=True):
        if message in requests and fate in _NOT_KEPT:
            body = values.encode({"refused": "the run that was asked has ended, or there is none"})
            keep(tx, [NewSignal(message.run_id, reply.signal_name(message.key), body, f"~refused:{message.key}")])
    return kept
