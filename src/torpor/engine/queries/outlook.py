"""What going on from a checkpoint would mean: told before a fork or a rewind is done, and again when it was."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torpor.core.effect import Safety
from torpor.core.journal import Kind
from torpor.core.replay import CallKind, kind_of, name_of
from torpor.engine.checkpoints import entries_after
from torpor.engine.large import named_blobs, read_whole
from torpor.engine.queries.story import tell
from torpor.engine.queries.told import EffectLine
from torpor.store import values

if TYPE_CHECKING:
    from torpor.core.journal import Stored
    from torpor.engine.checkpoints import Point
    from torpor.store.protocol import Tx
    from torpor.store.rows import RunRow

_LASTS = frozenset({"done", "unknown", "in flight"})


@dataclass(frozen=True, slots=True)
class Outlook:
    """What going on from a checkpoint means, before it is done.

    `cannot_undo` are effects and messages after it that have happened or may have: they stay. `waits` are open now and do
    not come along (G19). `cut_rows` counts elements of `Rows` fields that go out of sight. `unread` signals stay.
    """

    run: str
    checkpoint: int
    made_at: int
    turn: int
    branch: int
    cannot_undo: list[EffectLine] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)
    cut_rows: dict[str, int] = field(default_factory=dict)
    unread: int = 0


def outlook(tx: Tx, run: RunRow, name: str, point: Point, *, cuts: bool) -> Outlook:
    """Return what going on from a checkpoint means. `cuts`: the same run goes back (a rewind), so rows go out of sight."""
    state = tx.states([run.id])[run.id]
    entries = list(entries_after(tx, run.id, point.seq))
    packed = tx.get_blobs(named_blobs(entry.body for entry in entries)) if entries else {}
    story = tell(run, entries, packed, turn=state.turn, settled={}, now=tx.now())
    stays = [line for line in story.effects if line.outcome in _LASTS and line.safety != Safety.REPEATABLE]
    beyond: dict[str, int] = {}
    if cuts and point.seq != state.seq:
        kept = values.rows_in(read_whole(tx, point.body))
        now_there = values.rows_in(read_whole(tx, state.body))
        beyond = {name: count - kept.get(name, 0) for name, count in now_there.items() if count > kept.get(name, 0)}
    waits = [] if run.state.final else [wait.title for wait in tx.waits([run.id]) if wait.answered_at is None]
    return Outlook(
        name,
        point.seq,
        point.at,
        point.mark.turn,
        point.mark.branch,
        [*stays, *_sent(entries, state.turn)],
        waits,
        beyond,
        len(tx.unread([run.id]).get(run.id, [])),
    )


def _sent(entries: list[Stored], turn: int) -> list[EffectLine]:
    """Return the messages to other runs, which cannot be taken back either."""
    turn -= sum(entry.kind is Kind.CHECKPOINT for entry in entries)
    found: list[EffectLine] = []
    for entry in entries:
        turn += entry.kind is Kind.CHECKPOINT
        if entry.key is not None and entry.kind is Kind.OUTCOME and kind_of(entry.key) is CallKind.SEND:
            found.append(
                EffectLine(f"message {name_of(entry.key)}", turn, "sent", "done", "", "", entry.at, entry.at, 0)
            )
    return found
