"""C03: a reader skips rows that commit late.

Writer A writes and holds its transaction, writer B writes and commits at once. A live reader and a paged one poll all the
while. Right: both get everything once, in one order for each run, with no gap; the same for any queue inside that works
through a cursor. In torpor numbers are given out for each run under the lock of its lease, so a later number cannot become
visible before an earlier one; the outbox is no cursor at all, because what was delivered is removed.
"""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.conformance.meeting import Beside, Held
from tests.conformance.world import World, populate
from tests.patience import PATIENCE_SECONDS
from torpor.client import Client
from torpor.core.commit import NewMessage
from torpor.core.ids import run_name
from torpor.core.run import State
from torpor.core.stream import NewPart, PartKind, StreamWrite
from torpor.engine import streams
from torpor.engine.streams import Said
from torpor.store.protocol import Lane
from torpor.store.rows import RunChange

if TYPE_CHECKING:
    from tests.stores import Place
    from torpor.core.lease import Lease
    from torpor.store.protocol import Store, Tx

ROUNDS = 200


class Readers:
    """A live reader of each run, in a thread, and paged ones that are asked by hand."""

    def __init__(self, place: Place, runs: list[int]) -> None:
        """Begin to read."""
        self.store = place.open()
        self.paged: dict[int, list[int]] = {run: [] for run in runs}
        self.live: dict[int, list[int]] = {run: [] for run in runs}
        self._thread = threading.Thread(target=lambda: asyncio.run(self._read()))
        self._thread.start()

    async def _read(self) -> None:
        async def one(run: int) -> None:
            self.live[run] += [part.n async for part in Client(self.store).stream(run_name("audit", run))]

        await asyncio.gather(*(one(run) for run in self.live))

    def page(self) -> None:
        """Let the paged reader of each run look once."""
        for run, seen in self.paged.items():
            after = seen[-1] if seen else 0
            rows = self.store.transact_now(
                lambda tx, run=run, after=after: tx.parts(run, after=after, limit=3), lane=Lane.READ
            )
            seen += [row.n for row in rows]

    def end(self) -> None:
        """Wait until the live readers have seen the end of their runs."""
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()


def said(lease: Lease, from_n: int) -> Said:
    """Return a part of a run."""
    write = StreamWrite(from_n or None, [NewPart(1, PartKind.TEXT, b'"x"')])
    return Said(lease.run_id, lease.token, lease.epoch, write)


def end_runs(store: Store, world: World) -> None:
    """End all runs, as their last commit would."""

    def end(tx: Tx) -> None:
        tx.drop_leases(world.runs)
        tx.change_runs([RunChange(run, state=State.COMPLETED) for run in world.runs])
        tx.hint("ended")

    store.transact_now(end)


@pytest.mark.slow
def test_no_reader_misses_a_part_that_was_committed_late(place: Place) -> None:
    """Two runs, whose writers hold and commit in each order, and an equal writer of the held run behind it."""
    world = populate(place.open(), 2)
    late, early = (claimed.lease for claimed in world.claim())
    other = place.open()
    readers = Readers(place, world.runs)
    for n in range(ROUNDS):
        slow, quick = [said(late, n)], [said(early, n)]
        held = Held(world.store, partial(streams.append, said=slow))
        beside = Beside(partial(other.transact_now, streams.append, quick))
        if place.on_server:
            assert beside.result() == [n + 1], "it does not wait for the other run"
        readers.page()
        assert len(readers.paged[late.run_id]) == n, "what is not committed is not seen"
        copy = Beside(partial(other.transact_now, streams.append, slow))
        held.let_go()
        assert held.result() == [n + 1]
        assert beside.result() == [n + 1]
        assert copy.result() == [None], "nobody else writes that number (G2)"
        readers.page()
        assert [len(seen) for seen in readers.paged.values()] == [n + 1, n + 1]
    end_runs(world.store, world)
    readers.end()
    for seen in (*readers.paged.values(), *readers.live.values()):
        assert seen == list(range(1, ROUNDS + 1))


@pytest.mark.slow
def test_no_message_is_left_in_the_outbox(place: Place) -> None:
    """A message that took a lower number and was committed later is delivered after the ones that overtook it."""
    world = populate(place.open(), 2)
    one, two = world.runs
    other, drain = place.open(), place.open()
    delivered: list[str] = []

    def take(tx: Tx) -> list[str]:
        found = tx.outbox(limit=10)
        tx.drop_messages([message.id for message in found])
        return [message.key for message in found]

    def put(tx: Tx, run: int, key: str) -> None:
        tx.add_messages([(run, NewMessage(one, "m", key, b"1"))])
        tx.get_meta("sent by now, and not committed")

    for n in range(ROUNDS):
        held = Held(world.store, partial(put, run=one, key=f"late {n}"))
        beside = Beside(partial(other.transact_now, put, two, f"early {n}"))
        if place.on_server:
            beside.result()
            delivered += drain.transact_now(take)
            assert delivered[-1] == f"early {n}"
        held.result()
        beside.result()
        delivered += drain.transact_now(take)
    assert sorted(delivered) == sorted(f"{when} {n}" for when in ("late", "early") for n in range(ROUNDS))
