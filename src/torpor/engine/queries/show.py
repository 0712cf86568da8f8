"""One run in full: its line, its waits, the story of its newest entries, its effects, its unread signals, its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torpor.core.family import RESERVED
from torpor.core.ids import wait_name
from torpor.core.journal import Kind
from torpor.core.reply import sender_of
from torpor.core.run import State
from torpor.engine.decisions import find_run
from torpor.engine.large import legible, named_blobs
from torpor.engine.queries.fleet import RunLine, run_lines
from torpor.engine.queries.history import History, history
from torpor.engine.queries.kin import Family, family
from torpor.engine.queries.story import tell
from torpor.engine.streams import gone_words
from torpor.store import values

if TYPE_CHECKING:
    from torpor.engine.queries.life import Stretch
    from torpor.engine.queries.told import EffectLine, Heard, StoryLine
    from torpor.store.protocol import Tx

READ = 2_000
"""So many of the newest entries are read."""
TOLD = 100
"""So many decisions that came too late are told of."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A signal that no code of the run has asked for yet. It is kept until somebody does, and stays after the run's end."""

    at: int
    name: str
    value: Any
    sender: str | None


@dataclass(frozen=True, slots=True)
class TooLateLine:
    """A decision that changed nothing: about which wait, what it said, when."""

    wait: str
    said: str
    at: int


@dataclass(frozen=True, slots=True)
class RunShown:
    """A run as a person sees it. `entries_before` were not read: the story and the ledger begin after them."""

    at: int
    line: RunLine
    source: str
    head: int
    entries_before: int
    effects: list[EffectLine]
    lines: list[StoryLine]
    life: list[Stretch]
    state: Any
    """The last checkpoint, as people see it; the input while there is none."""
    result: Any
    heard: list[Heard]
    """Messages that its code took, oldest first, of the same entries."""
    unread: list[Unread]
    too_late: list[TooLateLine]
    """Decisions that came when somebody had been first."""
    history: History
    family: Family | None = None
    view: Any = None
    """What the run shows of itself now (`ctx.show`)."""
    parts: int = 0
    """The number of its stream's last part; 0: it emitted nothing."""
    parts_pruned: str = ""
    """Which of them are gone, since when and why."""


def show(tx: Tx, run: str, *, gone: frozenset[int] = frozenset(), read: int = READ) -> RunShown:
    """Return a run by its public id. `gone` are workers proven dead. Raises NotFound, UsageError."""
    row, _ = find_run(tx, run)
    line = run_lines(tx, [row], gone=gone)[0]
    entries = tx.journal_tail(row.id, limit=read)
    state = tx.states([row.id])[row.id]
    signals = [s for s in tx.unread([row.id]).get(row.id, []) if not s.name.startswith(RESERVED)]
    named = named_blobs([*(entry.body for entry in entries), state.body, *(signal.body for signal in signals)])
    packed = tx.get_blobs(named) if named else {}
    answers = {w.seq: values.plain(w.answer) for w in tx.waits([row.id], over=True) if w.answer is not None}
    settled = {seq: said for seq, said in answers.items() if isinstance(said, dict)}
    story = tell(row, entries, packed, turn=state.turn, settled=settled, now=tx.now())
    program = next((known for known in tx.programs() if known.id == row.program), None)
    last = entries[-1] if entries else None
    result = None
    if row.state is State.COMPLETED and last is not None and last.kind is Kind.OUTCOME and last.body:
        result = values.plain(legible(last.body, packed))
    view, stream = tx.views([row.id]).get(row.id), tx.streams([row.id]).get(row.id)
    cut = tx.stream_prunes([row.id]).get(row.id) if stream is not None else None
    return RunShown(
        tx.now(),
        line,
        program.source if program is not None else "",
        last.seq if last is not None else 0,
        entries[0].seq - 1 if entries else 0,
        story.effects,
        story.lines,
        story.life,
        values.plain(legible(state.body, packed)),
        result,
        story.heard,
        [Unread(s.at, s.name, values.plain(legible(s.body or b"null", packed)), sender_of(s.sender)) for s in signals],
        [TooLateLine(wait_name(row.id, late.seq), late.said, late.at) for late in tx.too_late(row.id, limit=TOLD)],
        history(tx, row),
        family(tx, row, line.parent),
        None if view is None else values.plain(view.body),
        0 if stream is None else stream.n,
        "" if cut is None else gone_words(1, cut.upto, cut.at, cut.why),
    )
