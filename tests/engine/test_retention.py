"""Streams and slots by hand: what is old goes in parts, a reader is told what is missing, what is loose stays (G11)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.engine.test_branching import Counted, Killed
from tests.engine.turns import str_id
from tests.engine.world import Hand, hand, proposal
from tests.stores import START_AT
from torpor.core.journal import Entry, Kind
from torpor.core.lease import LostAnswer, Proof
from torpor.core.run import State
from torpor.core.schedule import SECOND, Fate, Missed, Rule
from torpor.core.stream import Kept, NewPart, PartKind, StreamWrite
from torpor.engine import leases, retention, schedules, streams
from torpor.engine.streams import Page, Said
from torpor.store import values
from torpor.store.history_rows import RetentionRow

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.core.lease import Lease
    from torpor.store.protocol import Store

DAY = 86_400 * SECOND


def part(text: str, voice: int = 1) -> NewPart:
    """Return a text of a voice."""
    return NewPart(voice, PartKind.TEXT, json.dumps(text).encode())


def emit(one: Hand, lease: Lease, from_n: int | None, *texts: str, voice: int = 1, drops: tuple[int, ...] = ()) -> int:
    """Write parts between two commits; return the counter."""
    write = StreamWrite(from_n, [part(text, voice) for text in texts], drops=drops)
    (n,) = one.do(streams.append, [Said(lease.run_id, lease.token, lease.epoch, write)])
    assert n is not None
    return int(n)


def keep(one: Hand, lease: Lease, from_n: int, voice: int = 1, after: State = State.RUNNING) -> Lease:
    """Commit the outcome that keeps a voice."""
    outcome = Entry(Kind.OUTCOME, f"s:say#{voice}", b"1")
    write = StreamWrite(from_n, keeps=[voice], ends=after is not State.RUNNING)
    (reply,) = one.commit(proposal(lease, outcome, stream=write, after=after))
    assert reply.refused is None
    return lease._replace(head=lease.head + 1)


def page(one: Hand, run: int, after: int = 0) -> Page:
    """Read."""
    found: Page = one.do(streams.read, str_id(run), after=after)
    return found


def numbers(found: Page) -> list[int]:
    """Return the numbers of a page's parts."""
    return [row.n for row in found.parts]


def spoken(one: Hand, moment: Moment, *, ended: bool) -> tuple[int, Lease]:
    """Return a run that said a, b, a day later c, d."""
    (run,) = one.start()
    lease = one.claim()[0].lease
    lease = keep(one, lease, emit(one, lease, None, "a", "b"))
    moment.advance(86_400)
    n = emit(one, lease, 2, "c", "d", voice=2)
    lease = keep(one, lease, n, 2, State.COMPLETED if ended else State.READY)
    return run, lease


@pytest.mark.parametrize("ended", [False, True])
def test_a_stream_loses_its_old_beginning(store: Store, moment: Moment, *, ended: bool) -> None:
    """Of a run that goes on and of one that ended; a reader from before it is told, one from behind it is not (G11)."""
    one = hand(store)
    run, _ = spoken(one, moment, ended=ended)
    one.do(retention.declare, [RetentionRow("shop", stream=DAY // 2)])
    one.do(retention.sweep)
    for after in (0, 1):
        found = page(one, run, after)
        assert (numbers(found), found.ended) == ([3, 4], ended)
        assert found.gone is not None
        assert (found.gone.upto, found.gone.at, found.gone.why) == (2, moment.at, "the retention of `shop`")
    assert [page(one, run, after).gone for after in (2, 3, 4, 99)] == [None] * 4
    assert one.run(run).state is (State.COMPLETED if ended else State.READY)
    before = one.do(lambda tx: tx.stream_prunes([run]))
    moment.advance(10)
    one.do(retention.sweep)
    assert one.do(lambda tx: tx.stream_prunes([run])) == before, "nothing was old: nothing is written"


def test_no_number_is_used_twice(store: Store, moment: Moment) -> None:
    """When all parts are gone the next one has the next number, and a reader is told up to where all went."""
    one = hand(store)
    run, _ = spoken(one, moment, ended=False)
    one.do(retention.declare, [RetentionRow("shop", stream=0)])
    moment.advance(1)
    one.do(retention.sweep)
    found = page(one, run, 1)
    assert numbers(found) == []
    assert found.gone is not None
    assert found.gone.upto == 4
    assert page(one, run, 4).gone is None
    lease = one.claim(token=8)[0].lease
    assert emit(one, lease, None, "e") == 5
    assert numbers(page(one, run)) == [5]


def test_what_is_loose_stays(store: Store, moment: Moment) -> None:
    """However old: its retraction names what is there, a lost answer is found out by it, and what follows waits for it."""
    one = hand(store)
    (run,) = one.start()
    lease = one.claim()[0].lease
    lease = keep(one, lease, emit(one, lease, None, "a"))
    last = Said(run, lease.token, lease.epoch, StreamWrite(1, [part("loose"), part("too")]))
    assert one.do(streams.append, [last]) == [3]
    emit(one, lease, 3, "b", voice=2)
    keep(one, lease, 4, voice=2)
    moment.advance(86_400)
    one.do(retention.declare, [RetentionRow("shop", stream=SECOND)])
    one.do(retention.sweep)
    assert numbers(page(one, run)) == [2, 3, 4]
    holds_two = Kept()
    for row in page(one, run, 1).parts:
        holds_two.take(row.n, row.kind.word, streams.body_of(row))
    assert one.do(leases.reap, {one.worker: Proof.PROCESS_GONE}, quiet_until=0)
    one.do(retention.sweep)
    assert numbers(page(one, run)) == [5], "the retraction is new; what it took back is old and loose no more"
    (back,) = page(one, run, holds_two.n).parts
    holds_two.take(back.n, back.kind.word, streams.body_of(back))
    assert holds_two.text == "b"


def test_a_lost_answer_is_found_out_beside_a_prune(store: Store, moment: Moment) -> None:
    """What was written last and is not acknowledged yet is loose, so it is there to be compared (G3)."""
    one = hand(store)
    (run,) = one.start()
    lease = one.claim()[0].lease
    said = Said(run, lease.token, lease.epoch, StreamWrite(None, [part("x")]))
    one.do(streams.append, [said])
    one.do(retention.declare, [RetentionRow("shop", stream=0)])
    moment.advance(30)
    one.do(retention.sweep)
    assert one.do(streams.find_out, said) == (LostAnswer.HAPPENED, 1)


def test_a_reader_who_missed_a_retraction(store: Store, moment: Moment) -> None:
    """It holds what was taken back by a part that is gone: the mark in its place makes it drop that (G11)."""
    one = hand(store)
    (run,) = one.start()
    lease = one.claim()[0].lease
    n = emit(one, lease, None, "wrong")
    reader = Kept()
    for row in page(one, run).parts:
        reader.take(row.n, row.kind.word, streams.body_of(row))
    assert reader.text == "wrong"
    n = emit(one, lease, n, "right", voice=2, drops=(1,))
    keep(one, lease, n, 2)
    moment.advance(86_400)
    one.do(retention.declare, [RetentionRow("shop", stream=SECOND)])
    one.do(retention.sweep)
    found = page(one, run, reader.n)
    assert found.gone is not None
    reader.take(found.gone.upto, "pruned", {})
    assert (reader.text, reader.n) == ("", n)


def test_a_long_stream_goes_in_parts_after_any_kill(
    store: Store, moment: Moment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bounded number at a time; killed before each verb, what is left goes the next time, and the rest is as it was."""
    monkeypatch.setattr(retention, "ROWS", 3)
    one = hand(store)
    runs = []
    for _ in range(2):
        (run,) = one.start()
        runs.append(run)
        lease = one.claim()[0].lease
        lease = keep(one, lease, emit(one, lease, None, *"abcdefgh"))
        moment.advance(1)
        keep(one, lease, emit(one, lease, 8, "young", voice=2), 2, State.COMPLETED)
    moment.advance(50)
    one.do(retention.declare, [RetentionRow("shop", stream=50 * SECOND + SECOND // 2)])
    more, rounds = True, 0
    while more:
        for left in range(200):
            before = [numbers(page(one, run)) for run in runs]
            try:
                more = one.do(lambda tx, left=left: retention.sweep(Counted(tx, left))).more
                break
            except Killed:
                assert [numbers(page(one, run)) for run in runs] == before
        rounds += 1
        for run in runs:
            found = page(one, run)
            assert (found.gone.upto if found.gone else 0) == (found.parts[0].n - 1 if found.parts else 9)
    assert rounds > 3
    assert [numbers(page(one, run)) for run in runs] == [[], [9]]


def test_slots_go_and_the_newest_stays(store: Store, moment: Moment) -> None:
    """What became of old slots is forgotten; nothing fires again, and the last one is still told of."""
    one = hand(store)
    rule = Rule(every_micros=60 * SECOND, missed=Missed.ALL)
    wanted = [schedules.Definition(name, "shop", rule, values.encode(1)) for name in ("a", "b")]
    one.do(schedules.register, wanted)

    def fire() -> int:
        rows, now = one.do(schedules.due)
        return int(one.do(schedules.fire, [schedules.plan(row, now) for row in rows]).started)

    for _ in range(5):
        moment.advance(60)
        assert fire() == 2
    one.do(retention.declare, [RetentionRow("shop", slots=90 * SECOND)])
    assert one.do(retention.prune_slots, one.do(lambda tx: tx.retention()), now=moment.at, dry=True) == (6, None)
    one.do(retention.sweep)
    ids = [row.id for row in one.do(lambda tx: tx.get_schedules(["a", "b"])).values()]
    left = one.do(lambda tx: tx.newest_slots(ids, limit=9))
    assert [[slot.slot_at for slot in left[number]] for number in ids] == [[moment.at, moment.at - 60 * SECOND]] * 2
    assert fire() == 0
    moment.advance(86_400)
    one.do(retention.sweep)
    left = one.do(lambda tx: tx.newest_slots(ids, limit=9))
    assert [(slot.slot_at, slot.fate) for slot in left[ids[0]]] == [(START_AT + 300 * SECOND, Fate.FIRED)]
