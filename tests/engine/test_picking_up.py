"""What `torpor run` does to start: it goes on with what was begun by the same command."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.engine.world import hand, proposal
from torpor.client import Client
from torpor.core.run import State
from torpor.engine import runs

if TYPE_CHECKING:
    from tests.stores import Place
    from torpor.store.protocol import Store


def test_what_is_picked_up_goes_on_until_it_has_ended(store: Store) -> None:
    """The key of an open run finds it; that of one that ended, or of one that is left for a new one, names the next."""
    one = hand(store)
    wanted = runs.Start("shop", b"1", key="k")
    first = one.do(runs.pick_up, wanted)
    assert first.created
    assert one.do(runs.pick_up, wanted) == first._replace(created=False)
    one.commit(proposal(one.claim()[0].lease, after=State.COMPLETED))
    second = one.do(runs.pick_up, wanted)
    assert second.created
    assert second.run_id != first.run_id
    assert one.do(runs.pick_up, wanted).run_id == second.run_id
    third = one.do(runs.pick_up, wanted, afresh=True)
    assert third.created
    assert one.do(runs.pick_up, wanted) == third._replace(created=False)
    assert [lease.run.id for lease in one.claim()] == [second.run_id, third.run_id]


def test_two_who_pick_up_what_has_ended_get_one_run(place: Place) -> None:
    """At the same moment, on connections of their own: one starts it, the other goes on with it."""
    first = place.open()
    second = first if place.kind == "memory" else place.open()
    one = hand(first)
    wanted = runs.Start("shop", b"1", key="k")
    one.do(runs.pick_up, wanted)
    one.commit(proposal(one.claim()[0].lease, after=State.COMPLETED))

    async def both() -> list[runs.Started]:
        return list(await asyncio.gather(*(store.transact(runs.pick_up, wanted) for store in (first, second))))

    found = asyncio.run(both())
    assert len({started.run_id for started in found}) == 1
    assert sorted(started.created for started in found) == [False, True]


def test_the_same_command_is_the_same_person_with_the_same_input(store: Store) -> None:
    """Another input, another person and another program are other runs."""
    hand(store)
    client = Client(store)

    async def picked(value: object, by: str) -> str:
        return (await client.pick_up("shop", value, by=by)).run_id

    async def check() -> None:
        one = await picked({"order": 7}, "ada")
        assert await picked({"order": 7}, "ada") == one
        assert len({one, await picked({"order": 8}, "ada"), await picked({"order": 7}, "ben")}) == 3

    asyncio.run(check())
