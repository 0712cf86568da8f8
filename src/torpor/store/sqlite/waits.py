"""Verbs on SQLite: waits, signals, the outbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.core.commit import MessageKind
from torpor.core.run import State
from torpor.core.wait import Signal, TooLate
from torpor.store import texts
from torpor.store.rows import Kept, MessageRow
from torpor.store.sqlite import hot, together
from torpor.store.sqlite.begun import Begun
from torpor.store.sqlite.hot import WAIT_COLUMNS, wait_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.store.rows import NewSignal, WaitRow

_END = "UPDATE waits SET over = 1 FROM (VALUES (rows)) v WHERE run_id = v.column1 AND slot = v.column2"
_ADDRESSED = "SELECT inbox, state, (SELECT name FROM programs WHERE id = program) FROM runs WHERE id = ?"
_MESSAGE_COLUMNS = "id, run_id, target, name, key, body, kind, detail"


class WaitVerbs(Begun):
    """Waits, signals, messages."""

    def put_waits(self, waits: Sequence[WaitRow]) -> None:
        """Write waits into their slots."""
        rows = [
            (*row[:3], int(row.kind), *row[4:6], texts.title(row.title), row.answer, int(row.over), *row[9:])
            for row in waits
        ]
        together.write(self._db, together.adding(f"waits ({WAIT_COLUMNS}, matches)", replacing=True), rows)

    def end_waits(self, slots: Sequence[tuple[int, int]]) -> None:
        """Mark slots as over."""
        together.write(self._db, _END, slots)

    def take_signals(self, signals: Sequence[tuple[int, int]]) -> None:
        """Consume signals."""
        hot.take(self._db, signals)

    def waits(self, ids: Sequence[int], *, over: bool = False) -> list[WaitRow]:
        """Return the waits of runs."""
        rest = "ORDER BY run_id, seq, slot" if over else "AND over = 0 ORDER BY run_id, seq, slot"
        return [wait_row(row) for row in self._many(f"SELECT {WAIT_COLUMNS} FROM waits WHERE run_id IN", ids, rest)]

    def people_waits(self, *, limit: int) -> list[WaitRow]:
        """Return open waits for people."""
        rows = self._db.execute(
            f"SELECT {WAIT_COLUMNS} FROM waits WHERE over = 0 AND answered_at IS NULL AND kind IN (3, 4, 6, 12)"
            " ORDER BY seq, run_id LIMIT ?",
            (limit,),
        )
        return [wait_row(row) for row in rows]

    def answer_wait(self, run: int, slot: int, seq: int, answer: bytes) -> bool:
        """Write a decision unless there is one."""
        cursor = self._db.execute(
            "UPDATE waits SET answered_at = ?, answer = ? WHERE run_id = ? AND slot = ? AND seq = ?"
            " AND answered_at IS NULL AND over = 0",
            (self.now(), answer, run, slot, seq),
        )
        return cursor.rowcount == 1

    def add_too_late(self, late: TooLate) -> None:
        """Keep a decision that came too late."""
        given = (late.run_id, late.seq, self.now(), texts.title(late.said))
        self._db.execute("INSERT INTO too_late (run_id, seq, at, said) VALUES (?, ?, ?, ?)", given)

    def too_late(self, run: int, *, limit: int) -> list[TooLate]:
        """Return a run's decisions that came too late."""
        rows = self._db.execute(
            "SELECT run_id, seq, said, at FROM too_late WHERE run_id = ? ORDER BY at, rowid LIMIT ?", (run, limit)
        )
        return [TooLate(*row) for row in rows]

    def add_signals(self, signals: Sequence[NewSignal], *, wake: bool = True) -> list[Kept]:
        """Keep signals and wake their runs."""
        texts.check((text for s in signals for text in (s.name, s.key, s.sender)), "a signal's name, key or sender")
        return [self._add_signal(signal, int(wake)) for signal in signals]

    def _add_signal(self, signal: NewSignal, wake: int) -> Kept:
        row = self._db.execute(_ADDRESSED, (signal.run_id,)).fetchone()
        if row is None or signal.program not in {"", row[2]}:
            return Kept.NO_RUN
        if State(row[1]).final:
            return Kept.FINAL
        cursor = self._db.execute(
            "INSERT INTO inbox (run_id, seq, at, name, key, sender, body) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (signal.run_id, row[0] + 1, self.now(), signal.name, signal.key, signal.sender, signal.body),
        )
        if cursor.rowcount != 1:
            return Kept.DUPLICATE
        self._db.execute(
            "UPDATE runs SET inbox = inbox + 1, due_at = CASE WHEN state = 2 AND ?1 AND flags & 256 = 0 THEN ?2 ELSE due_at"
            " END, state = CASE WHEN state = 2 AND ?1 AND flags & 256 = 0 THEN 1 ELSE state END WHERE id = ?3",
            (wake, self.now(), signal.run_id),
        )
        return Kept.NEW

    def unread(self, ids: Sequence[int]) -> dict[int, list[Signal]]:
        """Return unread signals."""
        found: dict[int, list[Signal]] = {}
        rows = self._many(
            "SELECT run_id, seq, at, name, body, sender FROM inbox WHERE body IS NOT NULL AND run_id IN",
            ids,
            "ORDER BY seq",
        )
        for run_id, *rest in rows:
            found.setdefault(run_id, []).append(Signal(*rest))
        return found

    def outbox(self, *, limit: int) -> list[MessageRow]:
        """Return the oldest messages."""
        rows = self._db.execute(f"SELECT {_MESSAGE_COLUMNS} FROM outbox ORDER BY id LIMIT ?", (limit,))
        return [MessageRow._make((*row[:6], MessageKind(row[6]), row[7])) for row in rows]

    def drop_messages(self, ids: Sequence[int]) -> None:
        """Remove delivered messages."""
        self._db.executemany("DELETE FROM outbox WHERE id = ?", [(message,) for message in ids])
