"""A call that fails because its process was away is made again, as after a takeover; a call that fails by itself is not."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.worker.asking import HELD, ask, asked
from tests.worker.labs import FaultyStore, HeldAnswer, asleep, commits_of, on, once
from torpor import NOT_DONE, App, Context, RunCancelled, RunFailed, rouse
from torpor.worker.roused import MOST_AGAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.stores import Moment
    from torpor.sdk.steps import EffectContext
    from torpor.store.protocol import Store
    from torpor.testing import Lab

app = App()
ATTEMPTS: list[int] = []
LOOKS: list[Callable[[], object]] = []
"""What happens in `verify`, the next times it is asked."""
RESEEDED: list[float] = []
LOOKED: list[int] = []
"""How many phases of RESEED were done when `verify` was asked."""


@app.step
async def reads(it: EffectContext) -> str:
    """Ask, and no harm is done if it is asked again."""
    ATTEMPTS.append(it.attempt)
    return await ask()


@app.effect(safety="keyed")
async def pays(it: EffectContext) -> str:
    """Ask somebody who knows the key."""
    ATTEMPTS.append(it.attempt)
    return await ask()


async def looks(_key: str) -> object:
    """Say that nothing happened; or what the test makes of it."""
    LOOKED.append(len(RESEEDED))
    if LOOKS:
        LOOKS.pop()()
    return NOT_DONE


@app.effect(safety="verify", verify=looks)
async def writes(it: EffectContext) -> str:
    """Ask somebody who can be asked what happened."""
    ATTEMPTS.append(it.attempt)
    return await ask()


@app.effect
async def sends() -> str:
    """Ask somebody who knows nothing."""
    return await ask()


EFFECTS: dict[str, Any] = {"pays": pays, "writes": writes, "sends": sends}


@app.step
async def begins() -> None:
    """Come before a call."""


@app.flow
async def calls(ctx: Context, name: str) -> str:
    """Make one call, with no attempt but the first."""
    await ctx.step(begins)
    if name == "reads":
        return await ctx.step(reads)
    return str(await ctx.effect(EFFECTS[name]))


@pytest.fixture(autouse=True)
def _afresh() -> Iterator[None]:
    """Nobody was asked; and the process's registry is sound afterwards."""
    HELD[:], ATTEMPTS[:], RESEEDED[:], LOOKED[:], LOOKS[:] = [asyncio.Queue()], [], [], [], []
    yield
    rouse.mend()


async def round_of_the_loop() -> None:
    """Let the loop go round once."""
    over = asyncio.get_running_loop().create_future()
    over.get_loop().call_soon(over.set_result, None)
    await over


@contextmanager
def callback(call: Any) -> Iterator[None]:
    """Have a callback of an author's among those of the process."""
    registered = rouse.on_rousal(call, phase=rouse.Phase.RESEED)
    try:
        yield
    finally:
        registered.take_back()


@pytest.mark.parametrize("name", ["reads", "pays", "writes"])
@pytest.mark.parametrize("noticed", [False, True])
def test_what_fails_across_a_rousal_is_called_again(store: Store, moment: Moment, name: str, *, noticed: bool) -> None:
    """Once, at once and uncounted, whether a tick or the dead connection tells first."""

    async def check(lab: Lab) -> None:
        worker: Any = await lab.worker()
        run = await lab.start(calls, name)
        first = await asked()
        asleep(worker)
        if noticed:
            worker.standing.look()
        first.set_exception(ConnectionResetError("of another life"))
        second = await asked()
        second.set_exception(ConnectionResetError("of this life"))
        with pytest.raises(RunFailed, match="of this life"):
            await lab.result(run)
        assert HELD[-1].empty()
        assert ATTEMPTS == [1, 1]

    on(store, moment, app, check)


@pytest.mark.parametrize("name", ["pays", "writes"])
def test_a_worker_that_drains_leaves_it_to_the_next(store: Store, moment: Moment, name: str) -> None:
    """Nothing begins in a drain; whoever takes the run over makes the call, though it has no second attempt."""

    async def check(lab: Lab) -> None:
        worker: Any = await lab.worker()
        run = await lab.start(calls, name)
        first = await asked()
        (executor,) = worker.executors.values()
        worker.stop()
        while not executor.draining:
            await round_of_the_loop()
        asleep(worker)
        first.set_exception(ConnectionResetError("of another life"))
        await asyncio.wait([worker._running], timeout=PATIENCE_SECONDS)  # noqa: SLF001 - it ends by itself
        assert HELD[-1].empty()
        assert ATTEMPTS == [1]
        await lab.drain()
        assert await lab.state(run) == "ready"
        result = asyncio.ensure_future(lab.result(run))
        second = await asked()
        second.set_result("answered")
        assert await result == "answered"
        assert [1, 2 if name == "writes" else 1] == ATTEMPTS  # as after any takeover: under an intent of its own

    on(store, moment, app, check)


@pytest.mark.parametrize("name", ["reads", "pays", "writes"])
def test_it_is_called_when_the_phases_are_done_and_not_before(store: Store, moment: Moment, name: str) -> None:
    """Before that it would be given a connection of the other life. Meanwhile its run is kept, and the loop goes on."""
    entered, leave = asyncio.Event(), threading.Event()

    async def check(lab: Lab) -> None:
        worker: Any = await lab.worker()
        loop = asyncio.get_running_loop()

        def reseeds(rousal: rouse.Rousal) -> None:
            loop.call_soon_threadsafe(entered.set)
            leave.wait(PATIENCE_SECONDS)
            RESEEDED.append(rousal.away_seconds)

        with callback(reseeds):
            run = await lab.start(calls, name)
            first = await asked()
            asleep(worker)
            first.set_exception(ConnectionResetError("of another life"))
            await asyncio.wait_for(entered.wait(), PATIENCE_SECONDS)
            assert HELD[-1].empty()
            assert worker.executors
            leave.set()
            second = await asked()
            assert len(RESEEDED) == 1
            assert worker.standing.ok()
            second.set_result("answered")
            assert await lab.result(run) == "answered"
            assert [1] * (name == "writes") == LOOKED

    on(store, moment, app, check)


@pytest.mark.parametrize("name", ["reads", "pays"])
def test_what_begins_then_waits(store: Store, moment: Moment, name: str) -> None:
    """The answer to a commit from before is what lets it begin: it is under way, and not called."""
    leave, faulty, answer = threading.Event(), FaultyStore(store), HeldAnswer()
    faulty.fault = once(commits_of("outcome begins#1"), answer)

    async def check(lab: Lab) -> None:
        worker: Any = await lab.worker()
        with callback(lambda _rousal: leave.wait(PATIENCE_SECONDS)):
            run = await lab.start(calls, name)
            await asyncio.wait_for(answer.reached.wait(), PATIENCE_SECONDS)
            (executor,) = worker.executors.values()
            asleep(worker)
            assert not worker.standing.look()
            answer.released.set()
            while not (executor.progress.steps or executor.progress.effects.going):
                await round_of_the_loop()
            assert ATTEMPTS == []
            leave.set()
            said = await asked()
            assert worker.standing.ok()
            said.set_result("answered")
            assert await lab.result(run) == "answered"
            assert ATTEMPTS == [1]

    on(faulty, moment, app, check)


def test_an_effect_whose_gate_has_just_answered_asks_it_again(store: Store, moment: Moment) -> None:
    """Somebody else's watch notices in that very moment: the answer is of another life (G2)."""
    leave, asks = threading.Event(), list[str]()

    async def check(lab: Lab) -> None:
        worker: Any = await lab.worker()
        ask = worker.gate.ask

        def asked_at_gate(executor: Any, safety: Any, answer: Callable[[Any], None]) -> None:
            def answered(verdict: Any) -> None:
                asks.append(str(verdict))
                if len(asks) == 1:
                    asleep(worker)
                    assert not worker.standing.look()
                    loop.call_soon(leave.set)
                answer(verdict)

            ask(executor, safety, answered)

        loop, worker.gate.ask = asyncio.get_running_loop(), asked_at_gate
        with callback(lambda _rousal: leave.wait(PATIENCE_SECONDS)):
            run = await lab.start(calls, "sends")
            said = await asked()
            assert len(asks) == 2
            assert worker.standing.ok()
            said.set_result("sent")
            assert await lab.result(run) == "sent"

    on(store, moment, app, check)


def test_what_was_cancelled_meanwhile_is_not_called(store: Store, moment: Moment) -> None:
    """A step that waits for the phases is taken back like one that runs."""
    entered, leave = asyncio.Event(), threading.Event()

    async def check(lab: Lab) -> None:
        worker: Any = await lab.worker()
        loop = asyncio.get_running_loop()

        def reseeds(_rousal: rouse.Rousal) -> None:
            loop.call_soon_threadsafe(entered.set)
            leave.wait(PATIENCE_SECONDS)

        with callback(reseeds):
            run = await lab.start(calls, "reads")
            first = await asked()
            asleep(worker)
            first.set_exception(ConnectionResetError("of another life"))
            await asyncio.wait_for(entered.wait(), PATIENCE_SECONDS)
            (executor,) = worker.executors.values()
            executor.progress.cancel_steps()  # what a cancel does, when it is heard in this very moment
            await lab.cancel(run)
            leave.set()
            with pytest.raises(RunCancelled):
                await lab.result(run)
            assert HELD[-1].empty()

    on(store, moment, app, check)


def test_a_worker_that_stays_shut_leaves_it_to_another(store: Store, moment: Moment) -> None:
    """Its callback fails until its time is over: whoever takes the run over makes the call."""

    async def check(lab: Lab) -> None:
        worker: Any = await lab.worker()
        worker.standing._shut_seconds = 0.05  # noqa: SLF001 - no test waits a minute

        def broken(_rousal: rouse.Rousal) -> None:
            raise ValueError("no entropy")

        with callback(broken):
            run = await lab.start(calls, "reads")
            first = await asked()
            asleep(worker)
            first.set_exception(ConnectionResetError("of another life"))
            await asyncio.wait([worker._running])  # noqa: SLF001 - it ends by itself
            assert "no entropy" in worker.standing.gone
            assert HELD[-1].empty()
        rouse.mend()
        await lab.drain()
        result = asyncio.ensure_future(lab.result(run))
        (await asked()).set_result("answered")
        assert await result == "answered"
        assert HELD[-1].empty()

    on(store, moment, app, check)


def test_verify_is_asked_again_if_the_process_was_away_in_it(store: Store, moment: Moment) -> None:
    """Its error is of another life, too; no person is asked."""

    async def check(lab: Lab) -> None:
        worker: Any = await lab.worker()

        def is_away() -> None:
            asleep(worker)
            raise ConnectionResetError("of another life")

        LOOKS.append(is_away)
        run = await lab.start(calls, "writes")
        (await asked()).set_exception(ConnectionResetError("of the life before"))
        (await asked()).set_exception(ConnectionResetError("of this life"))
        with pytest.raises(RunFailed, match="of this life"):
            await lab.result(run)
        assert len(LOOKED) == 3

    on(store, moment, app, check)


@pytest.mark.parametrize("name", ["reads", "pays", "writes"])
def test_what_is_away_each_time_fails_in_the_end(store: Store, moment: Moment, name: str) -> None:
    """A call that holds the interpreter's lock for seconds looks like a freeze whenever it is made: three times is enough."""

    async def check(lab: Lab) -> None:
        worker: Any = await lab.worker()
        run = await lab.start(calls, name)
        for _ in range(1 + MOST_AGAIN):
            said = await asked()
            asleep(worker)
            said.set_exception(ValueError("its own"))
        with pytest.raises(RunFailed, match="its own"):
            await lab.result(run)
        assert ATTEMPTS == [1] * (1 + MOST_AGAIN)

    on(store, moment, app, check)


def test_what_fails_in_one_life_fails(store: Store, moment: Moment) -> None:
    """Also if its worker was away before it began."""

    async def check(lab: Lab) -> None:
        worker: Any = await lab.worker()
        asleep(worker)
        worker.standing.look()
        run = await lab.start(calls, "reads")
        (await asked()).set_exception(ConnectionResetError("of this life"))
        with pytest.raises(RunFailed):
            await lab.result(run)
        assert HELD[-1].empty()

    on(store, moment, app, check)


def test_an_effect_that_may_have_acted_is_asked_about(store: Store, moment: Moment) -> None:
    """It is `once`: nobody calls it again by itself (G4)."""

    async def check(lab: Lab) -> None:
        worker: Any = await lab.worker()
        run = await lab.start(calls, "sends")
        first = await asked()
        asleep(worker)
        first.set_exception(ConnectionResetError("of another life"))
        await lab.settle()
        (wait,) = await lab.waits(run)
        assert "of another life" in wait.show["why"]
        assert HELD[-1].empty()

    on(store, moment, app, check)
