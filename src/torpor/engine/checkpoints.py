"""Checkpoints that can be returned to: finding one, or saying exactly why it cannot be; and what cannot be undone since.

Everything here only reads. Who changes a run by what it finds reads again under the run's lock (`engine.branching`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torpor.clock import as_datetime
from torpor.core.checkpoint import INPUT, MOST_CHECKPOINTS, Mark, mark_of
from torpor.core.journal import Kind
from torpor.errors import Conflict, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torpor.core.journal import Stored
    from torpor.store.history_rows import PruneRow
    from torpor.store.protocol import Tx
    from torpor.store.rows import RunRow

PAGE = 2_000
LISTED = 5

_LAST = 2**63 - 1
"""The highest number that an entry can have in a store."""


class Point(NamedTuple):
    """A checkpoint that can be gone on from: its entry, when it was made, its mark, and its state as it is stored."""

    seq: int
    at: int
    mark: Mark
    body: bytes


def present(tx: Tx, run: RunRow) -> Point:
    """Return the present checkpoint of a run: always whole, because its state lies in `states`."""
    state = tx.states([run.id])[run.id]
    return Point(state.seq, state.at, Mark(state.turn, run.program, run.branch), state.body)


_LAST = (1 << 31) - 1
"""No entry has a higher number, and no store could look for one."""


def find_point(tx: Tx, run: RunRow, name: str, at: int | None, verb: str) -> Point:
    """Return a checkpoint by its entry's number, the present one if none is said.

    Raises NotFound if there never was such a checkpoint, Conflict if it was pruned or emptied. Each names the command that
    works.
    """
    now = present(tx, run)
    if at is None or at == now.seq:
        return now
    entry = tx.entries([(run.id, at)]).get((run.id, at)) if INPUT <= at <= _LAST else None
    mark = mark_of(entry.key) if entry is not None and entry.kind is Kind.CHECKPOINT else None
    if entry is not None and mark is not None and entry.body is not None:
        return Point(entry.seq, entry.at, mark, entry.body)
    hint = f"torpor {verb} {name} --at {_nearest(tx, run, at, now.seq)}   (whole: {whole_words(tx, run)})"
    pruned = tx.prunes([run.id]).get(run.id)
    if entry is None and pruned is not None and at <= pruned.upto:
        raise Conflict(f"checkpoint {at} of {name} is gone: {pruned_words(tx, run, pruned)}", hint=hint)
    if at == INPUT or (entry is not None and entry.kind is Kind.CHECKPOINT):
        what = "the input" if at == INPUT else f"the state of checkpoint {at}"
        message = f"{what} of {name} is not kept any more: its program says how many are (keep_checkpoints)"
        raise Conflict(message, hint=hint)
    if entry is None:
        raise NotFound(f"{name} has no entry {at}", hint=hint)
    raise NotFound(f"entry {at} of {name} is no checkpoint but {_article(entry.kind)}", hint=hint)


def _article(kind: Kind) -> str:
    return f"{'an' if kind.word[0] in 'aeiou' else 'a'} {kind.word}"


def _nearest(tx: Tx, run: RunRow, at: int, present_seq: int) -> int:
    seqs = [*whole_numbers(tx, run), present_seq]
    return min(seqs, key=lambda seq: (abs(seq - at), seq))


def whole_numbers(tx: Tx, run: RunRow) -> list[int]:
    """Return the numbers of the checkpoints that can be returned to, newest first, the present one included."""
    found = {entry.seq for entry in tx.whole_checkpoints(run.id, limit=2 * MOST_CHECKPOINTS)}
    return sorted(found | {tx.states([run.id])[run.id].seq}, reverse=True)


def whole_words(tx: Tx, run: RunRow) -> str:
    """Return which checkpoints can be returned to, a few."""
    seqs = whole_numbers(tx, run)
    more = f" and {len(seqs) - LISTED} more" if len(seqs) > LISTED else ""
    return ", ".join(str(seq) for seq in seqs[:LISTED]) + more


def pruned_words(tx: Tx, run: RunRow, pruned: PruneRow) -> str:
    """Return what was pruned, up to where, when and why, and which checkpoint after that is whole."""
    day = as_datetime(pruned.at)
    first = next((seq for seq in reversed(whole_numbers(tx, run)) if seq > pruned.upto), None)
    told = f"Entries 1-{pruned.upto} were pruned on {day.day} {day:%b} by {pruned.why}."
    return told if first is None else f"{told} The checkpoint at {first} is whole."


def entries_after(tx: Tx, run: int, seq: int) -> Iterator[Stored]:
    """Yield all entries of a run above a number, read in pages."""
    while True:
        page = tx.journal(run, after=seq, limit=PAGE)
        yield from page
        if len(page) < PAGE:
            return
        seq = page[-1].seq
