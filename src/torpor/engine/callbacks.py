"""The answer to a callback: taken once, durable before it is acknowledged, or refused with the reason.

The token proves that torpor gave it out, so an answer may come before the run has registered its wait: it lies in the inbox
then, as every early signal. Everything else is asked under the run's lock, where the wait's end would be written as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torpor.core.ids import code, run_name, wait_name
from torpor.core.journal import Kind
from torpor.core.replay import CallKind, kind_of
from torpor.core.run import Flag
from torpor.core.token import Named, call_number, read_token
from torpor.core.wait import WaitKind
from torpor.engine.decisions import find_run, find_wait
from torpor.engine.waits import keep
from torpor.errors import Conflict, NotFound, UsageError
from torpor.store.rows import Kept, NewSignal

if TYPE_CHECKING:
    from torpor.core.commit import Blob
    from torpor.store.protocol import Tx
    from torpor.store.rows import RunRow

_PAGE = 2_000


class Delivered(NamedTuple):
    """An answer that is durable. `new` is False if this callback had been answered before: it is already handled."""

    run_id: str
    new: bool


def deliver(tx: Tx, text: str, body: bytes, blob: Blob | None = None, *, sender: str | None = None) -> Delivered:
    """Take the answer to a callback. It counts once, however often and from wherever it comes.

    Raises NotFound for a token that this store did not give out, Conflict if the callback expired, or its run ended, is
    being cancelled, or went on without it.
    """
    return _deliver(tx, read_token(text, tx.get_meta("token_key") or ""), body, blob, sender)


def deliver_to(tx: Tx, wait: str, body: bytes, blob: Blob | None = None, *, sender: str | None = None) -> Delivered:
    """Take the answer to the callback that a wait's public id names, from somebody who has the store and not the secret.

    Raises NotFound, UsageError if it waits for something else; Conflict as `deliver`.
    """
    run_id, seq = find_wait(tx, wait)
    name = wait_name(run_id, seq)
    entry = tx.entries([(run_id, seq)]).get((run_id, seq))
    if entry is None or entry.kind is not Kind.WAIT or entry.key is None:
        raise NotFound(f"there is no wait {name}", hint="torpor inbox lists what is open")
    if kind_of(entry.key) is not CallKind.CALLBACK:
        raise UsageError(f"{name} is no callback", hint=f"torpor inbox {name}")
    state, run = tx.states([run_id])[run_id], tx.get_runs([run_id])[run_id]
    if seq <= state.seq:
        shown = find_run(tx, code(run_id))[1]
        raise Conflict(f"{shown} went on without this answer: its turn is over", hint="nothing was kept")
    return _deliver(tx, Named(run_id, run.branch, state.turn, call_number(entry.key)), body, blob, sender)


def _deliver(tx: Tx, named: Named, body: bytes, blob: Blob | None, sender: str | None) -> Delivered:
    run = tx.get_runs([named.run_id], lock=True).get(named.run_id)
    if run is None:
        raise NotFound("the run of this callback is gone", hint="nothing was kept")
    programs = {row.id: row.name for row in tx.programs()}
    name = run_name(programs.get(run.program, "?"), run.id)
    if tx.known_keys(run.id, [named.signal]):
        return Delivered(name, new=False)
    why = _refused(tx, run, named)
    if why:
        raise Conflict(f"{name} {why}", hint=f"nothing was kept. torpor show {name}")
    if blob is not None:
        tx.put_blobs([(run.id, blob)])
    kept = keep(tx, [NewSignal(run.id, named.signal, body, named.signal, sender)])[0]
    return Delivered(name, new=kept is Kept.NEW)


def _refused(tx: Tx, run: RunRow, named: Named) -> str:
    """Return why an answer could not be consumed any more, or nothing."""
    lease = tx.leases([run.id]).get(run.id)
    state = tx.states([run.id])[run.id]
    if run.state.final:
        return f"is {run.state.word}"
    if Flag.CANCEL in run.flags or (lease is not None and Flag.CANCEL in lease.flags):
        return "is being cancelled"
    if run.branch != named.branch or state.turn != named.turn:
        return "went on without this answer: its turn is over"
    opened = _opened(tx, run.id, state.seq, named.call)
    if opened is None:
        return ""  # it came before its wait was registered
    wait = next((w for w in tx.waits([run.id]) if w.seq == opened and w.kind is WaitKind.CALLBACK), None)
    if wait is None:
        return "went on without this answer"
    return "waited for this answer until it expired" if wait.due_at is not None and wait.due_at <= tx.now() else ""


def _opened(tx: Tx, run_id: int, after: int, call: int) -> int | None:
    """Return the entry of this turn that opened the wait of a call, if it is durable."""
    while page := tx.journal(run_id, after=after, limit=_PAGE):
        for entry in page:
            if entry.kind is Kind.WAIT and entry.key is not None and call_number(entry.key) == call:
                return entry.seq
        after = page[-1].seq
    return None
