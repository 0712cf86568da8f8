"""Verbs on PostgreSQL: waits, signals, the outbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torpor.core.commit import MessageKind
from torpor.core.wait import Signal, TooLate, WaitKind
from torpor.store import texts
from torpor.store.postgres import hot
from torpor.store.postgres.arrays import ByteaArray, TextArray, longs
from torpor.store.postgres.begun import Begun
from torpor.store.rows import Kept, MessageRow, WaitRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.store.rows import NewSignal

_WAIT_COLUMNS = "run_id, slot, seq, kind, due_at, answered_at, title, answer, over, need, members"
_PUT_WAITS = f"""INSERT INTO waits ({_WAIT_COLUMNS}, matches) SELECT * FROM unnest(%(runs)s::bigint[], %(slots)s::int[],
    %(seqs)s::int[], %(kinds)s::smallint[], %(dues)s::bigint[], %(answereds)s::bigint[], %(titles)s::text[],
    %(answers)s::bytea[], %(overs)s::smallint[], %(needs)s::int[],
    %(members)s::bytea[], %(matches)s::bigint[]) ORDER BY 1, 2
    ON CONFLICT (run_id, slot) DO UPDATE SET seq = excluded.seq, kind = excluded.kind, due_at = excluded.due_at,
    answered_at = excluded.answered_at, title = excluded.title, answer = excluded.answer, over = excluded.over,
    need = excluded.need, members = excluded.members, matches = excluded.matches"""
_LOCKED_SLOTS = """WITH k AS MATERIALIZED (SELECT w.run_id, w.{n} FROM {table} w JOIN unnest(%(runs)s::bigint[],
    %(ns)s::int[]) AS b(run_id, n) ON w.run_id = b.run_id AND w.{n} = b.n ORDER BY w.run_id, w.{n} FOR UPDATE OF w)"""
_END_WAITS = f"""{_LOCKED_SLOTS.format(n="slot", table="waits")}
    UPDATE waits w SET over = 1 FROM k WHERE w.run_id = k.run_id AND w.slot = k.slot"""
_TAKE_SIGNALS = f"""{_LOCKED_SLOTS.format(n="seq", table="inbox")},
    emptied AS (UPDATE inbox i SET body = NULL FROM k WHERE i.run_id = k.run_id AND i.seq = k.seq AND i.key IS NOT NULL)
    DELETE FROM inbox i USING k WHERE i.run_id = k.run_id AND i.seq = k.seq AND i.key IS NULL"""
_ANSWER_WAIT = """UPDATE waits SET answered_at = %(now)s, answer = %(answer)s WHERE run_id = %(run)s AND slot = %(slot)s
    AND seq = %(seq)s AND answered_at IS NULL AND over = 0 RETURNING slot"""
_ADD_SIGNALS = f"""WITH {hot.MOMENT},
locked AS MATERIALIZED (SELECT s.*, r.state, r.inbox FROM unnest(%(runs)s::bigint[], %(names)s::text[], %(keys)s::text[],
    %(senders)s::text[], %(bodies)s::bytea[], %(programs)s::text[])
    WITH ORDINALITY AS s(run_id, name, key, sender, body, program, n) JOIN runs r ON r.id = s.run_id
    WHERE s.program = '' OR EXISTS (SELECT 1 FROM programs p WHERE p.id = r.program AND p.name = s.program OFFSET 0)
    ORDER BY r.id FOR UPDATE OF r),
fresh AS MATERIALIZED (SELECT l.*, l.inbox + (row_number() OVER (PARTITION BY run_id ORDER BY n))::int AS seq FROM locked l
    WHERE l.state < 4 AND (l.key IS NULL OR NOT EXISTS (
        SELECT 1 FROM inbox i WHERE i.run_id = l.run_id AND i.key = l.key OFFSET 0))),
kept AS (INSERT INTO inbox (run_id, at, seq, name, key, sender, body)
    SELECT run_id, now, seq, name, key, sender, body FROM fresh, moment
    ON CONFLICT (run_id, key) WHERE key IS NOT NULL DO NOTHING RETURNING run_id, seq),
woken AS (UPDATE runs r SET inbox = g.inbox, due_at = CASE WHEN r.state = 2 AND %(wake)s = 1 AND r.flags & 256 = 0
    THEN now ELSE r.due_at END, state = CASE WHEN r.state = 2 AND %(wake)s = 1 AND r.flags & 256 = 0 THEN 1 ELSE r.state END
    FROM (SELECT run_id, max(seq) AS inbox FROM kept GROUP BY run_id) g, moment WHERE r.id = g.run_id)
SELECT l.n, l.state, (EXISTS (SELECT 1 FROM fresh f WHERE f.n = l.n AND (f.run_id, f.seq) IN (SELECT run_id, seq FROM kept)))
    , now FROM locked l, moment"""
_OUTBOX = """SELECT id, run_id, target, name, key, body, kind, detail FROM outbox ORDER BY id LIMIT %(limit)s
    FOR UPDATE"""
"""Nothing is skipped: a sender's second message must not be delivered while another process delivers the first (G7)."""


def _wait_row(row: Sequence[Any]) -> WaitRow:
    return WaitRow._make((*row[:3], WaitKind(row[3]), *row[4:8], bool(row[8]), *row[9:], None))


class WaitVerbs(Begun):
    """Waits, signals, messages."""

    def put_waits(self, waits: Sequence[WaitRow]) -> None:
        """Write waits into their slots, in order."""
        self._tell(
            _PUT_WAITS,
            runs=longs([w.run_id for w in waits]),
            slots=longs([w.slot for w in waits]),
            seqs=longs([w.seq for w in waits]),
            kinds=longs([w.kind for w in waits]),
            dues=longs([w.due_at for w in waits]),
            answereds=longs([w.answered_at for w in waits]),
            titles=TextArray([texts.title(w.title) for w in waits]),
            answers=ByteaArray([w.answer for w in waits]),
            overs=longs([w.over for w in waits]),
            needs=longs([w.need for w in waits]),
            members=ByteaArray([w.members for w in waits]),
            matches=longs([w.matches for w in waits]),
        )

    def end_waits(self, slots: Sequence[tuple[int, int]]) -> None:
        """Mark slots as over."""
        self._tell(_END_WAITS, runs=longs([slot[0] for slot in slots]), ns=longs([slot[1] for slot in slots]))

    def waits(self, ids: Sequence[int], *, over: bool = False) -> list[WaitRow]:
        """Return the waits of runs."""
        which = "" if over else "AND over = 0"
        statement = f"""SELECT {_WAIT_COLUMNS} FROM waits WHERE run_id = ANY(%(ids)s::bigint[]) {which}
            ORDER BY run_id, seq, slot"""
        return [_wait_row(row) for row in self._ask(statement, ids=longs(ids))]

    def people_waits(self, *, limit: int) -> list[WaitRow]:
        """Return open waits for people."""
        statement = f"""SELECT {_WAIT_COLUMNS} FROM waits WHERE over = 0 AND answered_at IS NULL AND kind IN (3, 4, 6, 12)
            ORDER BY seq, run_id LIMIT %(limit)s"""
        return [_wait_row(row) for row in self._ask(statement, limit=limit)]

    def answer_wait(self, run: int, slot: int, seq: int, answer: bytes) -> bool:
        """Write a decision unless there is one."""
        return bool(self._ask(_ANSWER_WAIT, now=self.now(), answer=answer, run=run, slot=slot, seq=seq))

    def add_too_late(self, late: TooLate) -> None:
        """Keep a decision that came too late."""
        self._tell(
            "INSERT INTO too_late (run_id, seq, at, said) VALUES (%(run)s, %(seq)s, %(now)s, %(said)s)",
            run=late.run_id,
            seq=late.seq,
            now=self.now(),
            said=texts.title(late.said),
        )

    def too_late(self, run: int, *, limit: int) -> list[TooLate]:
        """Return a run's decisions that came too late."""
        statement = (
            "SELECT run_id, seq, said, at FROM too_late WHERE run_id = %(run)s ORDER BY at, ctid LIMIT %(limit)s"
        )
        return [TooLate(*row) for row in self._ask(statement, run=run, limit=limit)]

    def add_signals(self, signals: Sequence[NewSignal], *, wake: bool = True) -> list[Kept]:
        """Keep signals, count up and wake, in one statement (G7).

        A concurrent signal with the same key is caught by the unique index: it leaves a hole in the numbers, which is
        harmless, and counts nothing up.
        """
        texts.check(
            (t for s in signals for t in (s.name, s.key, s.sender, s.program)), "a signal's name, key or sender"
        )
        firsts: dict[tuple[int, str], int] = {}
        sent, repeats = [], {}
        for place, signal in enumerate(signals):
            first = place if signal.key is None else firsts.setdefault((signal.run_id, signal.key), place)
            if first == place:
                sent.append(place)
            else:
                repeats[place] = first
        asked = [signals[place] for place in sent]
        rows = self._ask(
            _ADD_SIGNALS,
            now=self._now,
            runs=longs([s.run_id for s in asked]),
            names=TextArray([s.name for s in asked]),
            keys=TextArray([s.key for s in asked]),
            wake=int(wake),
            senders=TextArray([s.sender for s in asked]),
            bodies=ByteaArray([s.body for s in asked]),
            programs=TextArray([s.program for s in asked]),
        )
        self._now = rows[0][3] if rows else self._now
        kept = [Kept.NO_RUN] * len(signals)
        for n, state, new, _ in rows:
            kept[sent[n - 1]] = Kept.NEW if new else Kept.FINAL if state >= 4 else Kept.DUPLICATE  # noqa: PLR2004 - the first final state
        for place, first in repeats.items():
            kept[place] = Kept.DUPLICATE if kept[first] is Kept.NEW else kept[first]
        return kept

    def take_signals(self, signals: Sequence[tuple[int, int]]) -> None:
        """Consume signals."""
        self._tell(_TAKE_SIGNALS, runs=longs([s[0] for s in signals]), ns=longs([s[1] for s in signals]))

    def unread(self, ids: Sequence[int]) -> dict[int, list[Signal]]:
        """Return unread signals."""
        found: dict[int, list[Signal]] = {}
        statement = """SELECT run_id, seq, at, name, body, sender FROM inbox
            WHERE body IS NOT NULL AND run_id = ANY(%(ids)s::bigint[]) ORDER BY run_id, seq"""
        for run_id, *rest in self._ask(statement, ids=longs(ids)):
            found.setdefault(run_id, []).append(Signal(*rest))
        return found

    def outbox(self, *, limit: int) -> list[MessageRow]:
        """Return the oldest messages, locked."""
        return [MessageRow._make((*row[:6], MessageKind(row[6]), row[7])) for row in self._ask(_OUTBOX, limit=limit)]

    def drop_messages(self, ids: Sequence[int]) -> None:
        """Remove delivered messages."""
        self._tell("DELETE FROM outbox WHERE id = ANY(%(ids)s::bigint[])", ids=longs(ids))
