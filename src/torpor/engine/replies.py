"""A client that asks a run something, and the answer it gets: both durable, both once.

The question is a signal under the asker's key, so asking again is the same question. The answer is written in the commit
of the run that gives it, in a table of its own, and stays there for a while (`engine.events.REPLY_SECONDS`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torpor.core.reply import Address, key_of_request, with_address
from torpor.engine.decisions import find_run
from torpor.engine.large import read_whole
from torpor.engine.waits import keep
from torpor.errors import Conflict
from torpor.store.rows import Kept, NewSignal

if TYPE_CHECKING:
    from torpor.core.commit import Blob
    from torpor.core.run import State
    from torpor.store.protocol import Tx


class Asked(NamedTuple):
    """A question: its run, where its answer will lie, the answer if there is one, and how the run stands."""

    run_id: str
    key: str
    answer: bytes | None
    state: State


def ask(tx: Tx, run: str, signal: NewSignal, blob: Blob | None) -> Asked:
    """Ask a run something, unless it was asked before. `signal.key` is the asker's.

    Raises NotFound; Conflict if the run has ended and never answered.
    """
    row, name = find_run(tx, run)
    key = f"{row.id}:{signal.key}"
    known = answer(tx, name, key)
    if known.answer is not None:
        return known
    if blob is not None:
        tx.put_blobs([(row.id, blob)])
    sender = with_address(signal.sender, Address(None, key))
    kept = keep(tx, [signal._replace(run_id=row.id, key=key_of_request(signal.key or ""), sender=sender)])[0]
    if kept is Kept.FINAL:
        raise ended(name, row.state)
    return known


def answer(tx: Tx, run: str, key: str) -> Asked:
    """Return how a question stands."""
    body = tx.get_reply(key)
    row, name = find_run(tx, run)
    return Asked(name, key, None if body is None else read_whole(tx, body), row.state)


def ended(name: str, state: State) -> Conflict:
    """Return the error for a question that nobody answers any more."""
    return Conflict(f"{name} is {state.word} and did not answer", hint=f"torpor show {name}")
