"""The crash matrix: killed at every commit and between act and record, for every safety class, on every store.

The outside counter says what really happened, and docs/guarantees.md what may happen.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter as Tally
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.worker.counter import COUNTER
from tests.worker.labs import on
from torpor import App, Context, EffectContext, Rows
from torpor.testing import Crash, Lab, Place, Run
from torpor.testing.mortal import KILLS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.stores import Moment
    from torpor.store.protocol import Store, Tx

pytestmark = pytest.mark.slow
app = App()
BOOKINGS = f"bookings_{os.getpid()}"
"""A table of the author's own; on a server it is not in torpor's schema, so other test processes see it too."""


def sql(statement: str) -> str:
    """Return a statement about the author's own table."""
    return statement.replace("{table}", BOOKINGS)


@app.step
async def look() -> int:
    """Read something."""
    return COUNTER.act("look")


@app.effect(safety="keyed")
async def pay(ctx: EffectContext) -> str:
    """Pay where the far side knows the key."""
    COUNTER.act(ctx.key)
    return ctx.key


def was_sent(key: str) -> bool:
    """Look whether a letter went out."""
    return key in COUNTER.calls


@app.effect(verify=was_sent)
async def send(ctx: EffectContext) -> None:
    """Send a letter that can be looked for."""
    COUNTER.act(ctx.key)


@app.effect
async def charge(amount: int) -> int:
    """Charge, which nobody can repeat or look up."""
    COUNTER.act("charge")
    return amount


@app.effect(safety="transactional")
def book(connection: Any) -> str:
    """Write into the author's own table, inside the commit."""
    connection.execute(sql("INSERT INTO {table} (n) VALUES (1)"))
    return "booked"


@app.flow
async def steps(ctx: Context) -> int:
    """One step."""
    await ctx.step(look)
    return 1


@app.flow
async def pays(ctx: Context) -> str:
    """One keyed effect."""
    return await ctx.effect(pay)


@app.flow
async def sends(ctx: Context) -> str:
    """One effect that can be looked for."""
    await ctx.effect(send)
    return "sent"


@app.flow
async def charges(ctx: Context) -> int:
    """One effect that cannot be repeated."""
    return await ctx.effect(charge, 7)


@app.flow
async def books(ctx: Context) -> str:
    """One effect inside the commit."""
    return await ctx.effect(book)


@dataclass
class Todo:
    """What a loop over effects still has to do."""

    left: list[int]
    done: Rows[int]


@app.flow
async def loop(ctx: Context, state: Todo) -> Any:
    """A turn for each effect; the state is changed before the effect that may fail."""
    if state.left:
        amount = state.left.pop()
        state.done.append(await ctx.effect(charge, amount))
        return ctx.again(state)
    return [n async for n in state.done]


async def careful(lab: Lab, run: Run) -> None:
    """Do what a careful person does: answer each unknown effect from what the outside world says."""
    await lab.settle()
    while unknown := [effect for effect in await lab.effects(run) if effect.state == "unknown"]:
        known = sum(effect.state == "done" for effect in await lab.effects(run))
        if COUNTER.count > known:
            await lab.answer(run, happened=unknown[0].arguments[0])
        else:
            await lab.answer(run, again=True)
        await lab.settle()


def acted_unrecorded(crash: Crash[Lab], name: str) -> bool:
    """Whether the kill fell between act and record."""
    return crash.place is Place.ACTED or (crash.place is Place.BEFORE and crash.what.startswith(f"outcome {name}"))


def begun_unacted(crash: Crash[Lab], name: str) -> bool:
    """Whether the kill fell between the durable intent and the act."""
    return crash.place is Place.AFTER and crash.what == f"intent {name}#1"


def test_a_step_runs_again_only_if_its_record_is_missing(store: Store, moment: Moment) -> None:
    """`repeatable`: twice if it was killed between act and record, else once."""

    async def check(lab: Lab) -> None:
        seen: Tally[int] = Tally()
        async for crash in lab.every_crash(steps, before=COUNTER.clear, places=KILLS):
            assert await crash.result() == 1, crash
            assert COUNTER.count == (2 if acted_unrecorded(crash, "look") else 1), crash
            seen[COUNTER.count] += 1
        assert seen[1] >= 5
        assert seen[2] == 2

    on(store, moment, app, check)


def test_a_keyed_effect_has_one_key(store: Store, moment: Moment) -> None:
    """`keyed` (G5): the far side sees one key however often it is called, so it counts one."""

    async def check(lab: Lab) -> None:
        places: Tally[Place] = Tally()
        async for crash in lab.every_crash(pays, before=COUNTER.clear, places=KILLS):
            assert await crash.result() == COUNTER.calls[0], crash
            assert COUNTER.keys == 1, crash
            assert COUNTER.count == (2 if acted_unrecorded(crash, "pay") else 1), crash
            places[crash.place] += 1
        assert places == {Place.UNDISTURBED: 1, Place.BEFORE: 3, Place.AFTER: 4, Place.ACTED: 1}

    on(store, moment, app, check)


def test_a_verified_effect_happens_once(store: Store, moment: Moment) -> None:
    """`verify`: the far side is asked, and it is done exactly once without a person."""

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(sends, before=COUNTER.clear, places=KILLS):
            assert await crash.result() == "sent", crash
            assert COUNTER.count == 1, crash

    on(store, moment, app, check)


def test_a_once_effect_is_never_started_twice(store: Store, moment: Moment) -> None:
    """`once` (G4): an intent without an outcome is unknown, and only then a person is asked."""

    async def check(lab: Lab) -> None:
        asked = 0

        async def drive(lab: Lab, run: Run) -> None:
            nonlocal asked
            await lab.settle()
            asked = sum(effect.state == "unknown" for effect in await lab.effects(run))
            await careful(lab, run)

        async for crash in lab.every_crash(charges, drive=drive, before=COUNTER.clear, places=KILLS):
            assert await crash.result() == 7, crash
            assert COUNTER.count == 1, crash
            assert asked == (acted_unrecorded(crash, "charge") or begun_unacted(crash, "charge")), crash

    on(store, moment, app, check)


def test_a_loop_over_effects_repeats_none(store: Store, moment: Moment) -> None:
    """Three turns, three effects: killed anywhere, each happens once and the state is right (G3, G4)."""

    async def check(lab: Lab) -> None:
        crashes = 0
        async for crash in lab.every_crash(
            loop, Todo([1, 2, 3], Rows()), drive=careful, before=COUNTER.clear, places=KILLS
        ):
            assert await crash.result() == [3, 2, 1], crash
            assert COUNTER.count == 3, crash
            crashes += 1
        assert crashes >= 20

    on(store, moment, app, check)


def test_a_transactional_effect_happens_exactly_once(store: Store, moment: Moment) -> None:
    """`transactional` (G6): the author's row and the record come together, wherever the kill falls."""

    def run(statement: str) -> Callable[[Tx], Any]:
        def lent(tx: Tx) -> Any:
            with tx.lend() as connection:
                return connection.execute(statement)

        return lent

    def booked() -> int:
        def count(tx: Tx) -> int:
            with tx.lend() as connection:
                return int(connection.execute(sql("SELECT count(*) FROM {table}")).fetchone()[0])

        return store.transact_now(count)

    def clear() -> None:
        store.transact_now(run(sql("DELETE FROM {table}")))

    async def check(lab: Lab) -> None:
        places: Tally[Place] = Tally()
        async for crash in lab.every_crash(books, before=clear, places=KILLS):
            assert await crash.result() == "booked", crash
            assert await asyncio.to_thread(booked) == 1, crash
            places[crash.place] += 1
        assert places == {Place.UNDISTURBED: 1, Place.BEFORE: 2, Place.INSIDE: 1, Place.AFTER: 3}

    store.transact_now(run(sql("CREATE TABLE {table} (n int)")))
    try:
        on(store, moment, app, check)
    finally:
        store.transact_now(run(sql("DROP TABLE {table}")))
