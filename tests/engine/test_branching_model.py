"""Any sequence of turns, forks, rewinds, retries and prunes against a small model (G5, G9, G19)."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.turns import str_id, turns
from tests.engine.world import Hand, hand, proposal
from tests.stores import KINDS, Moment, Place
from torpor.core.checkpoint import mark_of
from torpor.core.effect import effect_key
from torpor.core.journal import Entry, Kind
from torpor.core.run import State
from torpor.engine import branching, checkpoints, retention
from torpor.errors import Conflict, NotFound
from torpor.store import values
from torpor.store.history_rows import RetentionRow

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DAY = 86_400_000_000
EXAMPLES = {"memory": 60, "sqlite": 12, "postgres": 8}


@dataclass
class Seen:
    """What the model knows of one run: its present rows, its checkpoints with theirs, and how far its numbers have come."""

    rows: list[list[int]] = field(default_factory=list)
    points: dict[int, list[list[int]]] = field(default_factory=dict)
    head: int = 0
    turn: int = 1
    pruned: int = 0
    keys: set[str] = field(default_factory=set)


class Model:
    """A store and the model beside it. After each act everything that can be seen is compared."""

    def __init__(self, one: Hand, moment: Moment) -> None:
        """Start one run."""
        self.one, self.moment = one, moment
        (run,) = one.start()
        self.runs = {run: Seen(points={0: []})}
        one.do(retention.declare, [RetentionRow("shop", journal=DAY)])

    def turn(self, place: int, number: int) -> None:
        """Do turns in one run, and put it away."""
        run, seen = self._nth(place)
        for other in self.one.claim(100):
            if other.run.id != run:
                self.one.commit(proposal(other.lease, after=State.WAITING, due_at=self.moment.at + 10**15))
                self.runs[other.run.id].head += 1
            else:
                self.one.commit(proposal(other.lease, after=State.READY))
                seen.head += 1
        if self.one.run(run).state is not State.READY:
            self.one.do(branching.rewind, str_id(run), self._last(seen), by="x")
            seen.head += 2
            seen.turn += 1
            seen.points[seen.head] = list(seen.rows)
        branch = self.one.run(run).branch
        lease = turns(self.one, run, number, rows=2, keep=100)
        for _ in range(number):
            key = effect_key(run, branch, seen.turn, "e:pay#1")
            assert key not in seen.keys, "G5: two calls have one key"
            seen.keys.add(key)
            seen.turn += 1
            seen.rows += [[seen.turn, 0], [seen.turn, 1]]
            seen.head += 3
            seen.points[seen.head] = list(seen.rows)
        self.one.commit(proposal(lease, after=State.READY))
        seen.head += 1

    def rewind(self, place: int, which: int, *, held: bool) -> None:
        """Go back, or forward again, also while a worker holds the run."""
        run, seen = self._nth(place)
        if self.one.run(run).epoch == 0:
            return  # it has not begun
        if held:
            self.one.claim(100)
        at = sorted(seen.points)[which % len(seen.points)]
        self.one.do(branching.rewind, str_id(run), at, by="ana")
        if held:
            for other in self.runs:
                if self.one.run(other).state is State.RUNNING:
                    self.one.do(branching.rewind, str_id(other), self._last(self.runs[other]), by="x")
                    self._moved(other, self._last(self.runs[other]))
        self._moved(run, at)

    def _moved(self, run: int, at: int) -> None:
        seen = self.runs[run]
        seen.rows = list(seen.points[at])
        seen.head += 2
        seen.turn += 1
        seen.points[seen.head] = list(seen.rows)

    def fork(self, place: int, which: int) -> None:
        """Copy."""
        run, seen = self._nth(place)
        at = sorted(seen.points)[which % len(seen.points)]
        entry = self.one.do(lambda tx: tx.entries([(run, at)])).get((run, at))
        state = self.one.do(lambda tx: tx.states([run]))[run]
        self.one.do(branching.fork, branching.Fork(str_id(run), at, "ana"))
        copy = self.one.do(lambda tx: tx.forks_of(run, limit=1))[0]
        mark = mark_of(entry.key) if entry is not None else None
        turn = state.turn if state.seq == at or mark is None else mark.turn
        rows = list(seen.points[at])
        self.runs[copy] = Seen(rows, {1: list(rows)}, 1, turn)

    def fail(self, place: int) -> None:
        """Fail, and be retried."""
        run, seen = self._nth(place)
        if self.one.run(run).state is not State.READY:
            return
        for claimed in self.one.claim(100):
            failed = claimed.run.id == run
            end = Entry(Kind.FAILURE, None, values.encode({"calls": []})) if failed else Entry(Kind.NOTE, None, b"1")
            self.one.commit(proposal(claimed.lease, end, after=State.FAILED if failed else State.READY))
            self.runs[claimed.run.id].head += 1
        self.one.do(branching.retry, str_id(run), by="ana")
        seen.head += 1

    def prune(self, hours: int) -> None:
        """Let time pass, and the sweep."""
        self.moment.advance(3600 * hours)
        self.one.do(retention.sweep)
        for run, seen in self.runs.items():
            gone = self.one.do(lambda tx, run=run: tx.prunes([run])).get(run)
            oldest = self.one.do(lambda tx, run=run: tx.entries([(run, 0)]))
            upto = max(gone.upto if gone is not None else -1, 0 if not oldest and self._checkpointed(run) else -1)
            assert upto < self._last(seen), "the present checkpoint is gone"
            seen.pruned = max(seen.pruned, upto)
            seen.points = {at: rows for at, rows in seen.points.items() if at > upto or at == self._last(seen)}

    def _checkpointed(self, run: int) -> bool:
        return bool(self.one.do(lambda tx: tx.states([run]))[run].seq)

    def check(self) -> None:
        """Compare everything."""
        for run, seen in self.runs.items():
            row = self.one.run(run)
            lease = self.one.do(lambda tx, run=run: tx.leases([run])).get(run)
            state = self.one.do(lambda tx, run=run: tx.states([run]))[run]
            rows = self.one.do(lambda tx, run=run: tx.get_rows(run, "said", after=0, limit=999))
            assert (lease.head if lease else row.head) == seen.head
            assert state.turn == seen.turn
            assert [values.plain(body) for body in rows] == seen.rows
            assert values.rows_in(state.body).get("said", 0) == len(seen.rows)
            assert self.one.do(checkpoints.whole_numbers, row) == sorted(seen.points, reverse=True)
            with pytest.raises((Conflict, NotFound)):
                self.one.do(branching.rewind, str_id(run), seen.head + 1, by="ana")

    def _nth(self, place: int) -> tuple[int, Seen]:
        run = sorted(self.runs)[place % len(self.runs)]
        return run, self.runs[run]

    @staticmethod
    def _last(seen: Seen) -> int:
        return max(seen.points)


PLACES, WHICH = st.integers(0, 3), st.integers(0, 20)
ACTS = st.one_of(
    st.tuples(st.just("turn"), PLACES, st.integers(1, 3)),
    st.tuples(st.just("rewind"), PLACES, WHICH, st.booleans()),
    st.tuples(st.just("fork"), PLACES, WHICH),
    st.tuples(st.just("fail"), PLACES),
    st.tuples(st.just("prune"), st.integers(0, 20)),
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_any_history_is_the_models(kind: str, tmp_path: Path, server_url: Callable[[str], str]) -> None:
    """States, rows, heads, turns, keys and checkpoints are the model's after every act, on every store."""
    number = count()

    @settings(max_examples=EXAMPLES[kind], deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(ACTS, max_size=12))
    def check(acts: list[tuple[object, ...]]) -> None:
        folder = tmp_path / str(next(number))
        folder.mkdir()
        moment = Moment()
        place = Place(kind, folder, moment, server_url(kind) if kind == "postgres" else "")
        try:
            model = Model(hand(place.open()), moment)
            for name, *given_to in acts:
                if name == "rewind":
                    which, at, held = given_to
                    assert isinstance(which, int)
                    assert isinstance(at, int)
                    model.rewind(which, at, held=bool(held))
                else:
                    getattr(model, str(name))(*given_to)
                model.check()
        finally:
            place.close()

    check()
