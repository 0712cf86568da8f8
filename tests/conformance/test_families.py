"""Children and follow-ups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.world import away, populate
from torpor.core.commit import Blob, MessageKind, NewMessage
from torpor.core.run import Flag, State
from torpor.core.wait import WaitKind
from torpor.store.protocol import Lane
from torpor.store.rows import FollowUp, Kept, Left, MessageRow, NewRun, NewSignal, RunChange, WaitRow

if TYPE_CHECKING:
    from tests.conformance.world import World
    from tests.stores import Moment, Place
    from torpor.store.protocol import Store


def _born(world: World, parent: int, number: int) -> list[int]:
    new = [NewRun(world.program, world.tenant, b"input", parent=parent)] * number
    ids: list[int] = world.store.transact_now(lambda tx: tx.insert_runs(new))
    return ids


def test_follow_ups_are_kept_once_and_moved_on(store: Store) -> None:
    """Written again they change nothing, not even how far one came; they come by the number of their run."""
    do = store.transact_now
    do(lambda tx: tx.add_follow_ups([9, 3, 7]))
    do(lambda tx: tx.move_follow_ups([FollowUp(7, 70), FollowUp(8, 80)]))
    do(lambda tx: tx.add_follow_ups([7, 3]))
    assert do(lambda tx: tx.follow_ups(limit=9)) == [FollowUp(3, 0), FollowUp(7, 70), FollowUp(9, 0)]
    assert do(lambda tx: tx.follow_ups(limit=2)) == [FollowUp(3, 0), FollowUp(7, 70)]
    do(lambda tx: tx.drop_follow_ups([3, 9, 1]))
    assert do(lambda tx: tx.follow_ups(limit=9)) == [FollowUp(7, 70)]


def test_what_is_not_delivered_is_seen(store: Store) -> None:
    """A message or a follow-up, whoever holds it."""
    do = store.transact_now
    assert not do(lambda tx: tx.undelivered())
    do(lambda tx: tx.add_follow_ups([9]))
    assert do(lambda tx: tx.undelivered())
    do(lambda tx: tx.drop_follow_ups([9]))
    do(lambda tx: tx.add_messages([(1, NewMessage(2, "go", "k", b"1"))]))
    assert do(lambda tx: tx.undelivered())
    do(lambda tx: tx.drop_messages([message.id for message in tx.outbox(limit=9)]))
    assert not do(lambda tx: tx.undelivered())


def test_a_backlog_is_counted(store: Store) -> None:
    """Messages and follow-ups, each no further than asked for; it can be asked beside the work."""
    do = store.transact_now
    assert do(lambda tx: tx.backlog(most=9)) == (0, 0)
    do(lambda tx: tx.add_follow_ups([9, 8, 7]))
    do(lambda tx: tx.add_messages([(1, NewMessage(2, "go", "k", b"1"))]))
    assert do(lambda tx: tx.backlog(most=9), lane=Lane.READ) == (1, 3)
    assert do(lambda tx: tx.backlog(most=2)) == (1, 2)


def test_spent_keys_are_known(store: Store) -> None:
    """Those of consumed signals of this run, and no others."""
    world = populate(store, 2)
    one, two = world.runs
    world.signal(NewSignal(one, "a", b"1", "a"), NewSignal(one, "b", b"1", "b"), NewSignal(two, "c", b"1", "c"))
    store.transact_now(lambda tx: tx.take_signals([(one, 1), (two, 1)]))
    assert store.transact_now(lambda tx: tx.spent(one, ["a", "b", "c", "d"])) == {"a"}
    assert store.transact_now(lambda tx: tx.spent(one, [])) == set()


def test_what_is_forgotten_can_be_sent_again(store: Store) -> None:
    """Only consumed signals of this run with these keys are forgotten."""
    world = populate(store, 2)
    one, two = world.runs
    signals = [NewSignal(one, "a", b"1", "a"), NewSignal(one, "b", b"1", "b"), NewSignal(one, "c", b"1", "c")]
    world.signal(*signals, NewSignal(two, "a", b"1", "a"))
    store.transact_now(lambda tx: tx.take_signals([(one, 1), (one, 3), (two, 1)]))
    store.transact_now(lambda tx: tx.forget_spent(one, ["a", "b", "d"]))
    store.transact_now(lambda tx: tx.forget_spent(one, []))
    assert store.transact_now(lambda tx: tx.spent(one, ["a", "b", "c"])) == {"c"}
    assert store.transact_now(lambda tx: tx.spent(two, ["a"])) == {"a"}
    kept = store.transact_now(lambda tx: tx.add_signals(signals))
    assert kept == [Kept.NEW, Kept.DUPLICATE, Kept.DUPLICATE]


def test_live_children_come_by_parent_and_number(store: Store) -> None:
    """Above a number, up to a limit over all parents; those that ended are not among them."""
    world = populate(store, 2)
    one, two = world.runs
    of_one, of_two = _born(world, one, 3), _born(world, two, 2)
    ended = next(claimed.lease for claimed in world.claim() if claimed.run.id == of_one[1])
    world.leave([away(ended, after=State.FAILED)])

    def live(*places: FollowUp, limit: int = 9) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = store.transact_now(lambda tx: tx.live_children(places, limit=limit))
        return found

    family = [(one, of_one[0]), (one, of_one[2]), (two, of_two[0]), (two, of_two[1])]
    assert live(FollowUp(two, 0), FollowUp(one, 0)) == family
    assert live(FollowUp(one, 0), FollowUp(two, 0), limit=3) == family[:3]
    assert live(FollowUp(one, of_one[0]), FollowUp(two, of_two[0])) == [family[1], family[3]]
    assert live(FollowUp(of_one[0], 0)) == []
    assert [run.id for run in store.transact_now(lambda tx: tx.children(one, limit=2))] == of_one[1:]
    counted = store.transact_now(lambda tx: tx.count_children(one, most=9))
    assert counted == {State.RUNNING: 2, State.FAILED: 1}
    assert store.transact_now(lambda tx: tx.count_children(one, most=2)) == {State.RUNNING: 1, State.FAILED: 1}


def test_lasting_flags_stay_and_are_told(store: Store) -> None:
    """Whoever puts a run away learns what rides on it, also what came after the claim (G12)."""
    world = populate(store, 2)
    one, two = (claimed.lease for claimed in world.claim())
    family = Flag.FAMILY | Flag.CHILD | Flag.LINE | Flag.INDEPENDENT | Flag.PERSON
    store.transact_now(lambda tx: tx.change_runs([RunChange(one.run_id, flags=family)]))
    left = store.transact_now(lambda tx: tx.leave([away(one, after=State.COMPLETED), away(two, flags=Flag.PERSON)]))
    assert left == {
        one.run_id: Left(State.COMPLETED, family & ~Flag.PERSON),
        two.run_id: Left(State.WAITING, Flag.PERSON),
    }


def test_a_signal_that_wakes_nobody(store: Store, moment: Moment) -> None:
    """It is kept and counted, and a run that is put away meanwhile is ready; one that sleeps sleeps on (G7, G20)."""
    world = populate(store, 2)
    one, two = (claimed.lease for claimed in world.claim())
    world.leave([away(one, due_at=moment.at + 99)])
    signals = [NewSignal(lease.run_id, "~done:9", b"1", "~done:9") for lease in (one, two)]
    assert store.transact_now(lambda tx: tx.add_signals(signals, wake=False)) == [Kept.NEW, Kept.NEW]
    assert store.transact_now(lambda tx: tx.add_signals(signals, wake=False)) == [Kept.DUPLICATE, Kept.DUPLICATE]
    row = store.transact_now(lambda tx: tx.get_runs([one.run_id]))[one.run_id]
    assert (row.state, row.inbox, row.due_at) == (State.WAITING, 1, moment.at + 99)
    assert world.leave([away(two)]) == {two.run_id: State.READY}
    assert len(store.transact_now(lambda tx: tx.unread([one.run_id]))[one.run_id]) == 1


def test_waits_count_down(store: Store) -> None:
    """A wait keeps what it needs and whom it is for, and is lowered by slot."""
    world = populate(store, 1)
    run = world.runs[0]
    wait = WaitRow(run, 0, 1, WaitKind.CHILDREN, None, None, "t", None, need=3, members=b"\x00\x01")
    other = wait._replace(slot=1, seq=2, need=1, members=None)
    store.transact_now(lambda tx: tx.put_waits([wait, other]))
    assert store.transact_now(lambda tx: tx.waits([run])) == [wait, other]
    store.transact_now(lambda tx: tx.count_down([(run, 0, 2), (run, 7, 1)]))
    assert store.transact_now(lambda tx: tx.waits([run])) == [wait._replace(need=1), other]
    store.transact_now(lambda tx: tx.put_waits([wait._replace(seq=5, need=9, members=b"\x02")]))
    assert store.transact_now(lambda tx: tx.waits([run]))[1] == wait._replace(seq=5, need=9, members=b"\x02")


def test_messages_say_what_they_ask_for(store: Store) -> None:
    """A signal unless it is said otherwise."""
    sent = [NewMessage(2, "go", "k", b"1"), NewMessage(0, "audit", "k2", b"2", MessageKind.SPAWN, "mine")]
    store.transact_now(lambda tx: tx.add_messages([(1, message) for message in sent]))
    first, second = store.transact_now(lambda tx: tx.outbox(limit=9))
    assert first == MessageRow(first.id, 1, 2, "go", "k", b"1", MessageKind.SIGNAL, "")
    assert second == MessageRow(second.id, 1, 0, "audit", "k2", b"2", MessageKind.SPAWN, "mine")


def test_a_blob_stays_while_another_run_names_it(place: Place, moment: Moment) -> None:
    """A run that holds what another put aside keeps it; naming it twice is once (G3)."""
    store = place.open()
    world = populate(store, 1)
    store.transact_now(lambda tx: tx.put_blobs([(world.runs[0], Blob(b"d" * 16, b"packed"))]))
    heir = _born(world, world.runs[0], 1)[0]
    for _ in range(2):
        store.transact_now(lambda tx: tx.name_blobs([(b"d" * 16, heir), (b"d" * 16, heir)]))
    store.transact_now(lambda tx: tx.drop_runs([world.runs[0]]))
    store.transact_now(lambda tx: tx.sweep_blobs(before=moment.at + 1, limit=9))
    assert store.transact_now(lambda tx: tx.get_blobs([b"d" * 16])) == {b"d" * 16: b"packed"}
