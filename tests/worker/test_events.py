"""Events: matched by fields, handed to every run that waits, kept for those that come later (G7, G20)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.worker.labs import FaultyStore, HeldAnswer, Hold, commits_of, on, once
from torpor import App, Context, RunFailed, UsageError, hours
from torpor.client import Client
from torpor.engine import events
from torpor.worker.hearing import hear

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.core.lease import Lease
    from torpor.engine.leases import News
    from torpor.store.protocol import Store, Tx
    from torpor.testing import Lab, Run
    from torpor.worker.roles import Executor

app = App()
ORDER = UUID(int=7)


@dataclass
class Paid:
    """An event's value with types of its own."""

    order: UUID
    amount: float


@app.flow
async def hears(ctx: Context, where: dict[str, Any]) -> Any:
    """Wait for one event, an hour at most."""
    try:
        return await ctx.event("paid", where=where, expires=hours(1))
    except TimeoutError as error:
        return f"late: {error}"


@app.flow
async def hears_two(ctx: Context) -> Any:
    """Two waits at once: one for anything, one for order 2."""
    return await asyncio.gather(ctx.event("paid"), ctx.event("paid", where={"order": 2}))


@app.flow
async def hears_equal(ctx: Context) -> Any:
    """Two equal waits at once."""
    return await asyncio.gather(ctx.event("paid"), ctx.event("paid"))


@app.flow
async def hears_again(ctx: Context) -> Any:
    """Give a wait up, and wait anew."""
    try:
        async with asyncio.timeout(60):
            return await ctx.event("paid")
    except TimeoutError:
        return ["again", await ctx.event("paid")]


@pytest.mark.slow
def test_an_event_holds_wherever_the_worker_dies(store: Store, moment: Moment) -> None:
    """Published once, consumed once."""

    async def drive(lab: Lab, _run: Run) -> None:
        await lab.settle()
        client = Client(lab.store)
        for _ in range(2):
            await client.publish("paid", Paid(ORDER, 40.0), key=f"{lab.deaths} {lab.now}")
        await lab.settle()

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(hears, {"order": ORDER, "amount": 40}, drive=drive):
            assert await crash.result() == Paid(ORDER, 40.0), crash
            assert len([line for line in await crash.journal() if line.kind == "consumed"]) == 1, crash
            lab.advance(hours(25))  # what is kept is not for the next one

    on(store, moment, app, check)


def test_all_fields_must_be_equal(store: Store, moment: Moment) -> None:
    """Top-level fields, as people see them; another name is another event."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run = await lab.start(hears, {"order": 7, "by": "ana"})
        await lab.settle()
        for name, value in [("paid", {"order": 7}), ("paid", {"order": 7, "by": "ben"}), ("paid", 7)]:
            assert (await client.publish(name, value)).reached == 0
        assert (await client.publish("other", {"order": 7, "by": "ana"})).reached == 0
        assert (await client.publish("paid", {"order": "7", "by": "ana"})).reached == 0
        await lab.settle()
        assert await lab.state(run) == "waiting"
        done = await client.publish("paid", {"order": 7.0, "by": "ana", "more": [1]})
        assert (done.reached, done.going) == (1, False)
        assert await lab.result(run) == {"order": 7.0, "by": "ana", "more": [1]}

    on(store, moment, app, check)


def test_a_key_makes_repeats_one(store: Store, moment: Moment) -> None:
    """The same key of the same name is the same event."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        first = await client.publish("paid", 1, key="k")
        again = await client.publish("paid", 2, key="k")
        assert (first.new, again.new, again.event) == (True, False, first.event)
        assert (await client.publish("other", 3, key="k")).new
        run = await lab.start(hears, {})
        assert await lab.result(run) == 1

    on(store, moment, app, check)


def test_an_event_reaches_every_run(store: Store, moment: Moment, monkeypatch: pytest.MonkeyPatch) -> None:
    """In bounded batches; each run once, also when the fan-out is cut and begun again (G20)."""
    monkeypatch.setattr(events, "BATCH", 3)

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        runs = [await lab.start(hears, {"order": 1}) for _ in range(10)]
        other = await lab.start(hears, {"order": 2})
        await lab.settle()
        first = await client.publish("paid", {"order": 1, "n": 1})
        assert (first.reached, first.going) == (3, True)
        second = await client.publish("paid", {"order": 1, "n": 2})  # must not overtake the first
        assert (second.reached, second.going) == (0, True)

        def cut(tx: Tx) -> None:
            if events.fan_out(tx).more:
                raise RuntimeError("a crash before the commit")

        with pytest.raises(RuntimeError):
            await lab.store.transact(cut)
        await lab.settle()
        assert [await lab.result(run) for run in runs] == [{"order": 1, "n": 1}] * 10
        assert await lab.state(other) == "waiting"
        assert [line.taken for line in await client.events()] == [0, 10]

    on(store, moment, app, check)


def test_one_event_satisfies_one_wait_of_a_run(store: Store, moment: Moment) -> None:
    """The oldest wait that it fits; the next event is for the next wait."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run = await lab.start(hears_two)
        await lab.settle()
        assert (await client.publish("paid", {"order": 2, "n": 1})).reached == 1
        assert (await client.publish("paid", {"order": 3, "n": 2})).reached == 0
        assert (await client.publish("paid", {"order": 2, "n": 3})).reached == 1
        assert (await client.publish("paid", {"order": 2, "n": 4})).reached == 0
        assert await lab.result(run) == [{"order": 2, "n": 1}, {"order": 2, "n": 3}]

    on(store, moment, app, check)


def test_a_wait_that_was_given_up_loses_no_event(store: Store, moment: Moment) -> None:
    """It came after the timer and before the run looked: the next wait gets it (G7)."""

    async def check(lab: Lab) -> None:
        run = await lab.start(hears_again)
        await lab.settle()
        lab.advance(61)
        assert (await Client(lab.store).publish("paid", 1)).reached == 1
        assert await lab.result(run) == ["again", 1]

    on(store, moment, app, check)


def test_an_event_is_kept_for_a_day(store: Store, moment: Moment) -> None:
    """Then it is gone, visibly; a run that got it does not get it again."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        await client.publish("paid", {"order": 1})
        await client.publish("paid", {"order": 2})
        lab.advance(hours(23))
        first, second = await lab.start(hears, {}), await lab.start(hears, {"order": 1})
        assert await lab.result(first) == {"order": 1}
        assert await lab.result(second) == {"order": 1}
        lab.advance(hours(1))
        third = await lab.start(hears, {})
        await lab.settle()
        assert await lab.state(third) == "waiting"
        assert [(line.state, line.taken) for line in await client.events()] == [("expired", 0), ("expired", 2)]
        assert not (await lab.store.transact(events.tidy)).more
        assert [(line.name, line.state, line.taken) for line in await client.events()] == [("paid", "expired", 0)]
        lab.advance(hours(24 * 7 + 1))
        await lab.store.transact(events.tidy)
        assert not await client.events()
        assert await lab.result(third) == "late: paid expired"

    on(store, moment, app, check)


def test_an_expired_wait_gets_nothing(store: Store, moment: Moment) -> None:
    """Neither before the run looks nor afterwards."""

    async def check(lab: Lab) -> None:
        run = await lab.start(hears, {})
        await lab.settle()
        lab.advance(hours(1))
        assert (await Client(lab.store).publish("paid", 1)).reached == 0
        assert await lab.result(run) == "late: paid expired"

    on(store, moment, app, check)


def test_what_came_in_time_beats_an_expiry_that_did_not_see_it(store: Store, moment: Moment) -> None:
    """The worker has decided that it expired; the event reached the run before that was durable (G7)."""
    faulty, held = FaultyStore(store), Hold()
    faulty.fault = once(commits_of("outcome paid#1"), held)

    async def check(lab: Lab) -> None:
        run = await lab.start(hears, {})
        await lab.settle()
        lab.advance(hours(1))
        settling = asyncio.create_task(lab.settle())
        await asyncio.wait_for(held.reached.wait(), PATIENCE_SECONDS)
        moment.advance(-1)  # as if it had come just before
        assert (await Client(lab.store).publish("paid", "in time")).reached == 1
        moment.advance(1)
        held.released.set()
        await settling
        assert await lab.result(run) == "in time"

    on(faulty, moment, app, check)


def test_what_cannot_be_published_is_refused(store: Store, moment: Moment) -> None:
    """Names that nobody may have, values too large to be copied."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        for name, value, kept, says in [
            ("", 1, 60, "1 to 200 letters"),
            ("~done", 1, 60, "does not begin with ~"),
            ("x", "x" * 40_000, 60, "bytes, more than"),
            ("x", {f"f{n}": n for n in range(65)}, 60, "65 fields"),
            ("x", 1, 0, "kept=0"),
            ("x", 1, 10**9, "less than a year"),
        ]:
            with pytest.raises(UsageError, match=says):
                await client.publish(name, value, kept=kept)
        assert not await client.events()

    on(store, moment, app, check)


@pytest.mark.parametrize(
    ("name", "where", "seconds", "says"),
    [
        ("", {}, None, "1 to 200 letters"),
        ("~x", {}, None, "is torpor's own"),
        ("x", {"": 1}, None, "a field in where="),
        ("x", {"a": "x" * 9000}, None, "larger than"),
        ("x", {}, 0, "over before"),
    ],
)
def test_a_wait_that_makes_no_sense_is_refused(
    store: Store, moment: Moment, name: str, where: Any, seconds: Any, says: str
) -> None:
    """It fails where it is asked."""

    async def check(lab: Lab) -> None:
        run = await lab.start(hears_badly, [name, where, seconds])
        with pytest.raises(RunFailed, match=says):
            await lab.result(run)

    on(store, moment, app, check)


@app.flow
async def hears_badly(ctx: Context, how: list[Any]) -> Any:
    """Wait in a way that makes no sense."""
    await ctx.event(how[0], where=how[1], expires=how[2])


def test_people_see_what_it_sleeps_for(store: Store, moment: Moment) -> None:
    """`ps` says it in words."""

    async def check(lab: Lab) -> None:
        run = await lab.start(hears, {"order": 1})
        await lab.settle()
        assert (await Client(lab.store).get(run.name)).reason == "event paid order=1"

    on(store, moment, app, check)


def test_news_before_the_answer_of_the_registration(
    store: Store, moment: Moment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What satisfies both waits is heard before the worker knows that they are registered: each takes one (G7)."""
    faulty, answer = FaultyStore(store), HeldAnswer()
    faulty.fault = once(commits_of("wait paid#1", "wait paid#2"), answer)

    def heard(executor: Executor, news: News, lease: Lease) -> None:
        hear(executor, news, lease)
        if news.inbox == 2:
            answer.released.set()

    monkeypatch.setattr("torpor.worker.news.hear", heard)

    async def check(lab: Lab) -> None:
        for order in (1, 2):
            await Client(lab.store).publish("paid", {"order": order})
        run = await lab.start(hears_equal)
        assert await lab.result(run) == [{"order": 1}, {"order": 2}]
        assert faulty.faults == 1

    on(faulty, moment, app, check)
