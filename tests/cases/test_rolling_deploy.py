"""A rolling deploy: 200 runs, two real workers of different code, one replaced by the other in the middle.

Nothing is lost and nothing happens twice, counted outside. Runs whose code changed under them without a word are stopped
before they do anything, listed with both sides, and go on with the code that recorded them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from torpor.client import Client
from torpor.core.run import State
from torpor.engine import runs, waits
from torpor.store import values
from torpor.store.rows import NewSignal, RunFilter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.cases.world import World
    from torpor.engine.queries.people import InboxItem

pytestmark = pytest.mark.slow
ORDERS, REPORTS = 160, 40
TURNS = 2


def _start(world: World) -> tuple[list[int], list[int]]:
    def wanted(program: str, states: Sequence[Any]) -> list[int]:
        asked = [runs.Start(program, values.encode(state)) for state in states]
        started: list[runs.Started] = world.store.transact_now(runs.start, asked)
        return [one.run_id for one in started]

    orders = wanted("order", [{"number": number, "left": TURNS - 1} for number in range(ORDERS)])
    return orders, wanted("report", list(range(REPORTS)))


def _tell(world: World, ids: Sequence[int], name: str, key: str) -> None:
    world.store.transact_now(waits.signal, [NewSignal(run, name, b"1", key) for run in sorted(ids)])


def _states(world: World, ids: Sequence[int]) -> Counter[State]:
    return Counter(row.state for row in world.store.transact_now(lambda tx: tx.get_runs(sorted(ids))).values())


def _results(world: World, ids: Sequence[int]) -> list[str]:
    def read(tx: Any) -> list[str]:
        heads = [(row.id, row.head) for row in tx.get_runs(sorted(ids)).values()]
        return [str(values.plain(entry.body)) for entry in tx.entries(heads).values()]

    return world.store.transact_now(read)


def test_a_rolling_deploy_loses_nothing(world: World) -> None:
    """Old and new side by side, the old one drained while it works; then the old code for those that diverged."""
    old = world.worker("old/shop", name="old")
    orders, reports = _start(world)
    everybody = [*orders, *reports]
    world.until(lambda: _states(world, everybody)[State.WAITING] == len(everybody), "all sleep in the middle of a turn")

    new = world.worker("new/shop", name="new", options=("--program", "order"))
    _tell(world, orders[: ORDERS // 2], "paid", "first")  # both may take these: the old one serves version 1, as it did
    old.stop()
    _tell(world, orders[ORDERS // 2 :], "paid", "first")
    world.until(lambda: len(world.outside.keys("charge")) == ORDERS, "every order was charged once")
    _tell(world, orders, "paid", "second")
    world.until(lambda: _states(world, orders)[State.COMPLETED] == ORDERS, "all orders end in the new code")
    assert Counter(_results(world, orders)) == {"new, in EUR": ORDERS}

    new.stop()
    world.worker("new/shop", name="newer")
    _tell(world, reports, "read", "read")
    inbox: list[InboxItem] = world.until(lambda: _diverged(world), "every report is listed")
    assert {item.content["trouble"] for item in inbox} == {"diverged"}
    sides = {(item.content["recorded"], item.content["asked"]) for item in inbox}
    assert sides == {(f"mail#1('report {n}')", f"mail#1('Report no. {n}')") for n in range(REPORTS)}

    world.members[-1].stop()
    world.worker("old/shop", name="back", options=("--program", "report"))
    for run in reports[1:]:
        world.answer(run, again=True)
    world.cancel(reports[0])
    world.until(lambda: _states(world, reports)[State.COMPLETED] == REPORTS - 1, "the old code ends them")
    world.until(lambda: _states(world, reports)[State.CANCELLED] == 1, "or a cancel does")
    assert set(_results(world, reports[1:])) == {"old"}

    open_runs = world.store.transact_now(
        lambda tx: tx.list_runs(RunFilter([State.READY, State.RUNNING, State.WAITING, State.FAILED]))
    )
    assert open_runs == []
    told = {name: Counter(call.said["number"] for call in world.outside.all(name)) for name in ("reserve", "charge")}
    assert told["charge"] == dict.fromkeys(range(ORDERS), TURNS), "once in each turn, never again"
    assert len(world.outside.keys("reserve")) == ORDERS * TURNS
    assert {call.said["text"] for call in world.outside.all("mail")} == {f"report {n}" for n in range(REPORTS)}


def _diverged(world: World) -> list[InboxItem]:
    """Return what people are asked, once every report is among it."""
    items = asyncio.run(Client(world.store).inbox(limit=REPORTS + 1)).items
    return items if len(items) == REPORTS else []
