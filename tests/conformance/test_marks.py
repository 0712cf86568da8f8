"""A beacon in the store: compare-and-set of a machine's mark, the same on every store, also when copies ask at once."""

from __future__ import annotations

import asyncio
import copy
import threading
from typing import TYPE_CHECKING

import pytest

from tests.conformance.meeting import Beside, Held
from torpor.client import Client
from torpor.client.beacon import StoreBeacon
from torpor.engine import marks
from torpor.errors import UsageError
from torpor.rouse import Kind, Mark, NotCurrent, Place, Registry, RousalFailed, Watcher
from torpor.rouse.event import Finding
from torpor.rouse.incarnation import end, incarnation
from torpor.store.protocol import Lane

if TYPE_CHECKING:
    from tests import stores
    from torpor.store.postgres import PostgresStore
    from torpor.store.postgres.exchange import Seat
    from torpor.store.protocol import Store

MACHINE = "agent/7 of Zoë"


def test_a_mark_is_set_only_where_it_was_expected(store: Store) -> None:
    """On lineage and counter; what was set is read, trail and all; machines are apart."""
    beacon = StoreBeacon(store)
    assert beacon.read(MACHINE) is None
    first = Mark("1-a")
    assert not beacon.compare_and_set(MACHINE, first, first.beaten())
    assert beacon.compare_and_set(MACHINE, None, first)
    assert not beacon.compare_and_set(MACHINE, None, Mark("1-b"))
    second = first.beaten().child("é")
    assert not beacon.compare_and_set(MACHINE, first.beaten(), second)
    assert beacon.compare_and_set(MACHINE, first, second)
    assert not beacon.compare_and_set(MACHINE, Mark("another", second.counter), second.beaten())
    assert beacon.compare_and_set(MACHINE, second, second.beaten())
    assert beacon.read(MACHINE) == second.beaten()
    assert beacon.read("another") is None


def test_the_counter_is_large(store: Store) -> None:
    """A machine that beats a thousand times a second for a thousand years."""
    beacon, far = StoreBeacon(store), Mark("1-a", 2**45)
    assert beacon.compare_and_set(MACHINE, None, far)
    assert beacon.compare_and_set(MACHINE, far, far.beaten())
    assert beacon.read(MACHINE) == Mark("1-a", 2**45 + 1)


def test_of_two_copies_one_goes_on_and_an_older_state_is_told(store: Store) -> None:
    """`Place` says of each what it is, as with the beacons that stand alone (C01)."""
    place = Place(StoreBeacon(store), MACHINE)
    place.take_over()
    place.beat()
    other, saved = copy.copy(place), copy.copy(place)
    assert place.ask().current
    assert (other.ask().current, other.ask().kind) == (False, Kind.COPIED)
    place.beat()
    later = copy.copy(place)
    place.beat()
    assert later.ask().kind is Kind.ROLLED_BACK
    assert saved.ask().kind is Kind.COPIED
    with pytest.raises(NotCurrent):
        later.confirm()
    Place(StoreBeacon(store), MACHINE).take_over()
    assert place.ask().kind is Kind.COPIED


@pytest.mark.parametrize("begun", [False, True])
def test_copies_that_meet_at_one_mark(on_server: stores.Place, begun: bool) -> None:  # noqa: FBT001 - a case
    """The second waits behind the first, finds another mark, and is refused; also where there was no mark at all."""
    first, second = on_server.open(), on_server.open()
    old = Mark("1-a") if begun else None
    if begun:
        assert StoreBeacon(first).compare_and_set(MACHINE, None, Mark("1-a"))
    held = Held(first, lambda tx: marks.compare_and_set(tx, MACHINE, old, Mark("2-b")))
    beside = Beside(lambda: StoreBeacon(second).compare_and_set(MACHINE, old, Mark("2-c")))
    on_server.blocked()
    assert held.result()
    assert not beside.result()
    assert StoreBeacon(first).read(MACHINE) == Mark("2-b")


@pytest.mark.parametrize("begun", [False, True])
def test_whoever_waited_behind_one_that_failed_goes_on(on_server: stores.Place, begun: bool) -> None:  # noqa: FBT001 - a case
    """The first is rolled back: then the mark is still what the second expects."""
    first, second = on_server.open(), on_server.open()
    old = Mark("1-a") if begun else None
    if begun:
        assert StoreBeacon(first).compare_and_set(MACHINE, None, Mark("1-a"))

    def fails(_tx: object) -> bool:
        raise ZeroDivisionError

    held = Held(first, lambda tx: marks.compare_and_set(tx, MACHINE, old, Mark("2-b")), fails)
    beside = Beside(lambda: StoreBeacon(second).compare_and_set(MACHINE, old, Mark("2-c")))
    on_server.blocked()
    with pytest.raises(ZeroDivisionError):
        held.result()
    assert beside.result()
    assert StoreBeacon(first).read(MACHINE) == Mark("2-c")


def test_of_many_copies_at_once_one_gets_through(shared: stores.Place) -> None:
    """Sixteen memories in one state, each with a connection of its own, let go at one moment, again and again."""
    beacons = [StoreBeacon(shared.open()) for _ in range(4)]
    origin = Place(beacons[0], MACHINE)
    origin.take_over()
    for _ in range(5):
        places = [copy.copy(origin) for _ in range(16)]
        for number, place in enumerate(places):
            place._beacon = beacons[number % len(beacons)]  # noqa: SLF001 - a copy has a connection of its own
        together, current = threading.Barrier(len(places)), list[Place]()

        def ask(place: Place, together: threading.Barrier = together, current: list[Place] = current) -> None:
            together.wait()
            if place.ask().current:
                current.append(place)

        threads = [threading.Thread(target=ask, args=(place,)) for place in places]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        [origin] = current


def test_a_store_that_does_not_answer_keeps_the_gate_closed(shared: stores.Place) -> None:
    """No answer is no yes: an OSError, so that `confirm` fails, and the phases with it; once it answers they are mended."""
    place = Place(StoreBeacon(shared.open()), MACHINE)
    place.take_over()
    answering = place._beacon  # noqa: SLF001 - it goes away
    registry = Registry()
    registry.on_rousal(place.confirm)
    watcher = Watcher(registry=registry, detectors=[])
    place._beacon = StoreBeacon("sqlite:////no/such/folder/torpor.db")  # noqa: SLF001 - as above
    with pytest.raises(OSError, match="does not answer"):
        place.ask()
    with pytest.raises(RousalFailed, match="does not answer"):
        watcher.hear(Finding(Kind.COPIED, "by hand"))
    assert not registry.is_open
    place._beacon = answering  # noqa: SLF001 - as above
    registry.mend()
    assert registry.is_open


def test_a_name_that_no_store_can_keep_is_refused(store: Store) -> None:
    """It would be another machine's in another database."""
    for name in ("a\x00b", "a\ud800b"):
        with pytest.raises(UsageError, match="cannot be stored"):
            StoreBeacon(store).compare_and_set(name, None, Mark("1-a"))
        with pytest.raises(UsageError, match="cannot be stored"):
            StoreBeacon(store).read(name)
        with pytest.raises(UsageError, match="cannot be stored"):
            Place(StoreBeacon(store), name).take_over()


def test_a_beacon_speaks_on_no_connection_of_another_life(on_server: stores.Place) -> None:
    """Both copies hold it, and the answer may be the other's (G19). Within one life a connection is kept."""
    store = on_server.postgres()
    place = Place(StoreBeacon(store), MACHINE)
    place.take_over()
    before = _connections(store)
    place.beat()
    assert before <= _connections(store)
    for _ in range(2):
        end(incarnation())
        assert place.ask().current
        after = _connections(store)
        assert after
        assert not after & before
        before = after


def test_a_client_speaks_on_no_connection_of_another_life(on_server: stores.Place) -> None:
    """The same for whoever asks torpor from outside a worker."""
    store = on_server.postgres()
    client = Client(store)
    asyncio.run(_ask(client))
    before = _connections(store)
    assert before
    end(incarnation())
    asyncio.run(_ask(client))
    after = _connections(store)
    assert after
    assert not after & before


async def _ask(client: Client) -> None:
    await client.list()


def _connections(store: PostgresStore) -> set[Seat]:
    """Those of its lanes that may be used again."""
    seats = store._seats.items()  # noqa: SLF001 - nobody else is asked which
    return {seat for (name, _), seat in seats if seat.usable and name in Lane.__members__}
