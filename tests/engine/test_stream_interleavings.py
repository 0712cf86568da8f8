"""G11 over random interleavings: emit, fail, retry, finish, takeover, prune, copies, readers that begin anywhere and come back.

The model is a list of (number, voice's fate, text); the store is the real one, driven by the engine's own operations.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.world import Hand, hand, proposal
from tests.stores import Moment
from torpor.core.ids import code
from torpor.core.journal import Entry, Kind
from torpor.core.lease import Proof
from torpor.core.run import State
from torpor.core.stream import PRUNED, Kept, NewPart, PartKind, StreamWrite
from torpor.engine import leases, retention, streams
from torpor.engine.streams import Said
from torpor.store.history_rows import RetentionRow
from torpor.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from torpor.core.lease import Lease

VOICES = (1, 2, 3)
ACTIONS = ("emit", "emit", "emit", "fail", "finish", "takeover", "copy", "read", "drop reader", "prune")


class Reader(Kept):
    """A reader that knows up to where it was told that parts are gone."""

    told: int = 0


@dataclass
class Holder:
    """A leaseholder's own view of the run."""

    lease: Lease
    from_n: int | None = None
    count: int = 0
    voices: dict[int, int] = field(default_factory=dict)
    """The number that each call's present attempt speaks with."""

    def copied(self) -> Holder:
        """Return an equal one."""
        return Holder(self.lease, self.from_n, self.count, dict(self.voices))


class Whole:
    """A run, its holder, a copy of the holder, the readers, and what must be kept."""

    def __init__(self, store: SqliteStore, moment: Moment) -> None:
        """Begin with a claim."""
        self.hand: Hand = hand(store)
        self.moment = moment
        [self.run] = self.hand.start()
        self.holder = Holder(self.hand.claim()[0].lease)
        self.copy: Holder | None = None
        self.kept = ""
        self.loose: dict[int, list[str]] = {}
        self.order: list[tuple[int, str, int]] = []
        self.fates: dict[int, bool] = {}
        self.readers = [Reader(), Reader()]
        self.said = 0
        self.turns = 0

    def voice(self, holder: Holder, call: int) -> int:
        """Return the number a call's present attempt speaks with."""
        if call not in holder.voices:
            holder.count += 1
            holder.voices[call] = holder.count
        return holder.voices[call]

    def append(self, holder: Holder, write: StreamWrite) -> bool:
        """Write between commits, as the holder believes it may."""
        lease = holder.lease
        [n] = self.hand.do(streams.append, [Said(self.run, lease.token, lease.epoch, write)])
        if n is not None:
            holder.from_n = n
        return n is not None

    def emit(self, call: int, holder: Holder | None = None) -> bool:
        """Let a call's attempt say something new."""
        holder = holder or self.holder
        self.said += 1
        text = f"<{self.said}>"
        voice = self.voice(holder, call)
        part = NewPart(voice, PartKind.TEXT, json.dumps(text).encode())
        if not self.append(holder, StreamWrite(holder.from_n, [part])):
            return False
        self.order.append((self._mark(holder, voice), text, holder.from_n or 0))
        return True

    @staticmethod
    def _mark(holder: Holder, voice: int) -> int:
        return holder.lease.epoch * 1000 + voice

    def end(self, call: int, kind: Kind, *, last: bool = False) -> None:
        """End a call's attempt in a commit that keeps or drops it."""
        holder = self.holder
        voice = holder.voices.pop(call, None)
        keeps = [voice] if voice is not None and kind is Kind.OUTCOME else []
        drops = [voice] if voice is not None and kind is not Kind.OUTCOME else []
        write = StreamWrite(holder.from_n, keeps=keeps, drops=drops, ends=last)
        entries = [Entry(kind, f"s:call#{call}", b"1")] + ([Entry(Kind.OUTCOME, None, b"1")] if last else [])
        after = State.COMPLETED if last else State.RUNNING
        [reply] = self.hand.commit(proposal(holder.lease, *entries, stream=write, after=after))
        assert reply.refused is None, reply
        holder.lease = holder.lease._replace(head=holder.lease.head + len(entries))
        holder.from_n = reply.n
        for one in keeps:
            self.fates[self._mark(holder, one)] = True

    def takeover(self) -> None:
        """Let the worker die, and another one claim."""
        assert self.hand.do(leases.reap, {self.hand.worker: Proof.PROCESS_GONE}, quiet_until=0)
        dead, self.copy = self.holder, None
        self.holder = Holder(self.hand.claim(token=self.turns + 100)[0].lease)
        assert not self.emit(1, dead.copied()), "the dead are not heard"

    def read(self, reader: Reader, limit: int) -> None:
        """Let a reader go on from where it was."""
        page = self.hand.do(streams.read, code(self.run), after=reader.n, limit=limit)
        if page.gone is not None:
            reader.told = page.gone.upto
            reader.take(reader.told, PRUNED, {})
        for row in page.parts:
            assert row.n == reader.n + 1, "none is missed unsaid, none is told twice"
            reader.take(row.n, row.kind.word, streams.body_of(row))

    def do(self, action: str, call: int) -> None:
        """Take one step."""
        self.turns += 1
        self.moment.advance(1)
        if action == "emit":
            assert self.emit(call)
        elif action in {"fail", "finish"}:
            self.end(call, Kind.OUTCOME if action == "finish" else Kind.NOTE)
        elif action == "takeover":
            self.takeover()
        elif action == "copy":
            twin = self.holder.copied()
            assert self.emit(call)
            assert not self.emit(call, twin), "two copies do not both write a number (G2)"
        elif action == "prune":
            rule = RetentionRow("shop", stream=call * 3_000_000)
            self.hand.do(retention.prune_streams, [rule], now=self.moment.at)
        elif action == "read":
            self.read(self.readers[call % 2], call)
        else:
            self.readers[call % 2] = Reader()

    def text(self, told: int) -> str:
        """What whoever was told so must have in the end."""
        return "".join(text for mark, text, n in self.order if self.fates.get(mark) and n > told)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.sampled_from(VOICES)), max_size=40))
def test_every_reader_ends_with_the_kept_text(actions: list[tuple[str, int]]) -> None:
    """Whatever happens in between, from wherever somebody reads, and however often they come back (G11).

    What was pruned is the one exception, and whoever misses it is told so.
    """
    moment = Moment()
    store = SqliteStore(":memory:", clock=moment.now)
    try:
        store.migrate()
        whole = Whole(store, moment)
        for action, call in actions:
            whole.do(action, call)
        whole.end(1, Kind.OUTCOME, last=True)
        rows = whole.hand.do(lambda tx: tx.parts(whole.run, after=0, limit=10_000))
        for start in range(len(rows) + 1):
            reader = Reader()
            whole.read(reader, start) if start else None
            whole.read(reader, 10_000)
            assert reader.text == whole.text(reader.told)
            assert reader.told == (rows[0].n - 1 if rows else reader.n)
        for reader in whole.readers:
            whole.read(reader, 10_000)
            assert reader.text == whole.text(reader.told)
    finally:
        store.close_now()
