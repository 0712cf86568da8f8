"""The client on every store: starting, waking, deciding, waiting for the end."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tests.client.programs import Order, app
from torpor import App, Context
from torpor.client import Client
from torpor.core.run import State
from torpor.engine import retention
from torpor.errors import (
    Conflict,
    NeedsPerson,
    NotFound,
    RunCancelled,
    RunFailed,
    StoreUnavailable,
    UnstorableValue,
    UsageError,
)
from torpor.runtime import run as run_here
from torpor.testing import Lab, Run

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from tests.stores import Moment
    from torpor.store.protocol import Store, Tx

    Check = Callable[[Lab, Client], Coroutine[None, None, None]]


@pytest.fixture
def on(store: Store, moment: Moment) -> Callable[[Check], None]:
    """Return what runs a check with a lab and a client on a fresh store of each kind."""

    def run(check: Check) -> None:
        async def main() -> None:
            async with Lab(app, store=store, clock=moment) as lab:
                await check(lab, Client(lab.store))

        asyncio.run(main())

    return run


def test_a_result_comes_back_as_it_was(on: Callable[[Check], None]) -> None:
    """`result` gives the flow's value with its class, `start` says that the run is new."""

    async def check(lab: Lab, client: Client) -> None:
        started = await client.start("echo", Order(7, "x"))
        assert started.created
        await lab.settle()
        assert await client.result(started.run_id) == Order(7, "x")

    on(check)


annotated = App()


@annotated.flow
async def takes(ctx: Context, what: Order) -> int:
    """Return the number: a flow whose annotations can be read."""
    del ctx
    return what.number


def test_a_state_that_does_not_fit_is_not_run() -> None:
    """`torpor.run` holds plain values against the annotation before anything is started; values of its class pass."""
    with pytest.raises(UsageError, match=r"does not fit Order: text: Field required, got \{'number': 1\}"):
        asyncio.run(run_here(annotated, takes, {"number": 1}))
    for fits in (Order(7, "x"), {"number": 7, "text": "x"}):
        assert asyncio.run(run_here(annotated, takes, fits)) == 7


def test_an_equal_key_finds_the_run(on: Callable[[Check], None]) -> None:
    """The same key of the same program is one run; another program may use it too."""

    async def check(lab: Lab, client: Client) -> None:
        first = await client.start("double", 4, key="k")
        await lab.settle()
        again = await client.start("double", 5, key="k")
        assert (again.run_id, again.created) == (first.run_id, False)
        assert (await client.start("echo", 5, key="k")).created
        with pytest.raises(UsageError, match="keys that begin with ~ are torpor's own"):
            await client.start("echo", 5, key="~slot/daily/1")
        assert await client.result(first.run_id) == 8

    on(check)


def test_a_run_may_start_later(on: Callable[[Check], None]) -> None:
    """With `at` it sleeps until then; a moment without a zone is refused."""

    async def check(lab: Lab, client: Client) -> None:
        started = await client.start("double", 4, at=lab.now + timedelta(hours=1))
        await lab.settle()
        line = await client.get(started.run_id)
        assert (line.shown, line.reason, line.next_is) == ("asleep", "starts later", "wakes")
        await lab.pass_time(timedelta(hours=1))
        assert await client.result(started.run_id) == 8
        with pytest.raises(UsageError, match="no time zone"):
            await client.start("double", 4, at=datetime(2030, 1, 1, tzinfo=UTC).replace(tzinfo=None))

    on(check)


def test_large_values_travel_as_blobs(on: Callable[[Check], None]) -> None:
    """A large input and a large signal come back whole, and a large result is shown whole."""

    async def check(lab: Lab, client: Client) -> None:
        large = "x" * 200_000
        started = await client.start("echo", large)
        waiting = await client.start("order", Order(1, "fine"))
        await lab.settle()
        assert await client.signal(waiting.run_id, "go", large)
        await lab.settle()
        assert await client.result(started.run_id) == large
        assert (await client.show(started.run_id)).result == large
        item = (await client.inbox()).items[0]
        assert item.content["show"]["word"] == large

    on(check)


def test_the_end_of_a_run_is_raised(on: Callable[[Check], None]) -> None:
    """A failed run raises its recorded error with its place, a cancelled one RunCancelled, a waiting one NeedsPerson."""

    async def check(lab: Lab, client: Client) -> None:
        failed, cancelled = await client.start("double", 13), await client.start("naps", 3600.0)
        asking = await client.start("order", Order(1, "torn"))
        await lab.settle()
        assert not (await client.cancel(cancelled.run_id)).state.final
        await lab.settle()
        with pytest.raises(RunFailed, match=r"StepFailed: .*ValueError: unlucky") as error:
            await client.result(failed.run_id)
        assert error.value.kind == "StepFailed"
        assert "programs.py:" in error.value.message
        with pytest.raises(RunCancelled):
            await client.result(cancelled.run_id)
        assert (await client.cancel(cancelled.run_id)).state is State.CANCELLED
        with pytest.raises(NeedsPerson, match=r"did refund#1 happen\? \(w-"):
            await client.result(asking.run_id, person="raise")
        with pytest.raises(TimeoutError):
            await client.result(asking.run_id, timeout_seconds=0.0)

    on(check)


def test_an_end_is_heard(on: Callable[[Check], None]) -> None:
    """Whoever waits is woken when the run ends, and knows nothing before."""

    async def check(lab: Lab, client: Client) -> None:
        started = await client.start("naps", 60.0)
        waiting = asyncio.create_task(client.result(started.run_id))
        await lab.settle()
        assert not waiting.done()
        await lab.pass_time(60)
        assert await waiting == "slept"

    on(check)


def test_a_signal_with_a_key_is_one(on: Callable[[Check], None]) -> None:
    """An early signal is kept; a repetition changes nothing; a run that has ended takes none."""

    async def check(lab: Lab, client: Client) -> None:
        started = await client.start("order", Order(1, "fine"))
        assert await client.signal(started.run_id, "go", 1, key="k", sender="shop")
        assert not await client.signal(started.run_id, "go", 2, key="k")
        await lab.settle()
        assert (await client.inbox()).items[0].content["show"]["word"] == 1
        await client.cancel(started.run_id)
        await lab.settle()
        with pytest.raises(Conflict, match="is cancelled: nothing was kept"):
            await client.signal(started.run_id, "go", 3)
        with pytest.raises(UsageError, match="1 to 200 letters"):
            await client.signal(started.run_id, "", 3)

    on(check)


async def _asking(lab: Lab, client: Client) -> Run:
    started = await client.start("order", Order(1, "fine"))
    await client.signal(started.run_id, "go", "now")
    await lab.settle()
    return Run(0, started.run_id)


def test_an_approval_is_bound_to_its_digest(on: Callable[[Check], None]) -> None:
    """The digest that was shown approves, another one is a conflict, an empty one too (G10)."""

    async def check(lab: Lab, client: Client) -> None:
        run = await _asking(lab, client)
        item = (await client.inbox()).items[0]
        for wrong in ("", "00ff"):
            with pytest.raises(Conflict, match="changed since you looked"):
                await client.approve(item.wait, by="ada", digest=wrong)
        assert await client.approve(item.wait, by="ada", note="fine", digest=item.digest) == item.wait
        await lab.settle()
        assert await client.result(run.name) == "True ada fine"

    on(check)


def test_the_second_decision_hears_of_the_first(on: Callable[[Check], None]) -> None:
    """Before and after the run went on: who was first, when, and what they decided."""

    async def check(lab: Lab, client: Client) -> None:
        run = await _asking(lab, client)
        wait = (await client.inbox()).items[0].wait
        await client.deny(wait, by="Ben", note="wrong order number")
        lab.advance(4)
        said = rf'Ben denied {wait} 4 seconds ago: "wrong order number"'
        with pytest.raises(Conflict, match=said):
            await client.approve(wait, by="ada")
        await lab.settle()
        with pytest.raises(Conflict, match="Ben denied"):
            await client.approve(wait, by="ada")
        with pytest.raises(Conflict, match="Ben denied"):
            await client.wait(wait)
        assert await client.result(run.name) == "False Ben wrong order number"

    on(check)


def test_an_expired_approval_says_so(on: Callable[[Check], None]) -> None:
    """Late consent is none, and says why."""

    async def check(lab: Lab, client: Client) -> None:
        run = await _asking(lab, client)
        wait = (await client.inbox()).items[0].wait
        await lab.pass_time(timedelta(days=1))
        with pytest.raises(Conflict, match="expired"):
            await client.approve(wait, by="ada")
        assert await client.result(run.name) == "False"

    on(check)


def test_an_unknown_effect_is_settled(on: Callable[[Check], None]) -> None:
    """`happened` gives its result, and None is one; exactly one answer is asked for; an approval is no answer."""

    async def check(lab: Lab, client: Client) -> None:
        started = await client.start("order", Order(1, "torn"))
        await lab.settle()
        letters = started.run_id.rpartition("-")[2]
        with pytest.raises(UsageError, match="exactly one"):
            await client.answer(f"w-{letters}", by="ada")
        with pytest.raises(UsageError, match="exactly one"):
            await client.answer(f"w-{letters}", by="ada", happened=1, again=True)
        with pytest.raises(UsageError, match="this wait is for attention"):
            await client.approve(f"w-{letters}", by="ada")
        await client.answer(f"w-{letters}", by="ada", happened=None)
        await client.signal(started.run_id, "go")
        await lab.settle()
        item = (await client.inbox()).items[0]
        assert item.content["show"]["done"] is None
        await client.deny(item.wait, by="ada")
        await lab.settle()
        assert await client.result(started.run_id) == "False ada"

    on(check)


def test_ids_that_name_nothing(on: Callable[[Check], None]) -> None:
    """An unknown id is not found, one of another program says which run has these letters, and nothing is changed."""

    async def check(lab: Lab, client: Client) -> None:
        del lab
        started = await client.start("double", 1)
        letters = started.run_id.rpartition("-")[2]
        assert (await client.get(letters.lower())).run == started.run_id
        with pytest.raises(NotFound, match=f"with these letters is {started.run_id}"):
            await client.get(f"echo-{letters}")
        with pytest.raises(NotFound, match="there is no run"):
            await client.signal("zzzz", "go")
        with pytest.raises(NotFound, match="there is no wait"):
            await client.approve(f"w-{letters}-1", by="ada")
        with pytest.raises(NotFound, match="no open wait"):
            await client.wait(f"w-{letters}")
        with pytest.raises(UsageError, match='no program named "nope"'):
            await client.start("nope", 1)
        with pytest.raises(UnstorableValue, match="object"):
            await client.start("echo", object())

    on(check)


def test_a_store_that_is_not_there(tmp_path: Path) -> None:
    """`connect` makes no file: it says that there is none, and what would make one."""
    file = tmp_path / "none.db"

    async def check() -> None:
        async with Client.connect(f"sqlite:///{file}"):
            pass

    with pytest.raises(StoreUnavailable, match="there is no database at"):
        asyncio.run(check())
    assert not file.exists()


def test_what_is_being_pruned_is_not_read_in_part(on: Callable[[Check], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """While a run goes in several parts, whoever reads it gets all of it or an error, never another result or some text."""
    monkeypatch.setattr(retention, "ROWS", 1)

    async def check(lab: Lab, client: Client) -> None:
        started = await lab.start("speak", 3)
        run = str(started)
        assert await lab.result(started) == "a1a2a3" == await client.text(run)
        await lab.pass_time(60)
        program = (await client.get(run)).program
        more, refused = True, []
        while more:
            more = await lab.store.transact(_prune_a_part, program)
            for reads in (client.result(run), client.text(run)):
                with pytest.raises((Conflict, NotFound)) as gone:
                    await reads
                refused.append(type(gone.value))
        assert refused.count(Conflict) > refused.count(NotFound) == 2

    on(check)


def test_a_text_that_lost_its_beginning_is_refused(on: Callable[[Check], None]) -> None:
    """What is left can be read part by part, with the mark of what is gone; the text as a whole is no text any more."""

    async def check(lab: Lab, client: Client) -> None:
        run = str(await lab.start("speak", 3))
        await lab.settle()
        await lab.pass_time(60)
        gone = await client.prune(older_than=timedelta(seconds=30), layer="stream", by="ana")
        assert (gone.streams, gone.parts > 0, gone.runs) == (1, True, 0)
        with pytest.raises(Conflict, match=rf"the text of {run} is not whole any more: Parts 1-\d+ were pruned on"):
            await client.text(run)
        left = [part async for part in client.stream(run, follow=False)]
        assert [part.kind for part in left] == ["pruned"]
        assert (left[0].n, left[0].body["why"]) == (gone.parts, "ana")
        assert [part async for part in client.stream(run, left[0].n)] == []
        with pytest.raises(UsageError, match="there is no layer 'leaves'"):
            await client.prune(layer="leaves")
        with pytest.raises(UsageError, match="negative age"):
            await client.prune(older_than=timedelta(seconds=-1))

    on(check)


def _prune_a_part(tx: Tx, program: str) -> bool:
    """Remove a part of a program's runs that ended; whether there may be more."""
    number = next(row.id for row in tx.programs() if row.name == program)
    return retention.prune_ended(tx, number, tx.now(), "a test").after == retention.BEGINNING
