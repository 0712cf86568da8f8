"""A worker that is asked to stop while its gate is shut: what acts is not cut, and nothing keeps it longer than its drain."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.worker.asking import HELD, ask, asked
from tests.worker.labs import FaultyStore, HeldAnswer, asleep, commits_of, on, once, times, until
from torpor import App, Context, rouse
from torpor.engine.effects import look
from torpor.worker import standing as standing_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.stores import Moment
    from torpor.sdk.steps import EffectContext
    from torpor.store.protocol import Store
    from torpor.testing import Lab

app = App()
ATTEMPTS: list[int] = []
FAILS: list[Exception] = []
"""What the next attempt fails with."""


@app.effect
async def sends() -> str:
    """Ask somebody who knows nothing: a person has to say what became of one that was cut."""
    return await ask()


@app.step
async def reads() -> str:
    """Ask, and no harm is done if it is asked again."""
    return await ask()


@app.flow
async def acts(ctx: Context) -> str:
    """Act once."""
    return await ctx.effect(sends)


@app.flow
async def looks(ctx: Context) -> str:
    """Read once."""
    return await ctx.step(reads)


@app.effect(safety="keyed", retries=3)
async def pays(it: EffectContext) -> str:
    """Fail at the first attempt, then ask somebody who knows the key."""
    ATTEMPTS.append(it.attempt)
    if FAILS:
        raise FAILS.pop()
    return await ask()


@app.flow
async def pays_once(ctx: Context) -> str:
    """Pay, and do nothing else."""
    return await ctx.effect(pays)


@app.flow
async def both(ctx: Context) -> list[str]:
    """Act, and pay meanwhile."""
    return list(await asyncio.gather(ctx.effect(sends), ctx.effect(pays)))


class Callback:
    """An author's callback, which fails or does not return while it is `broken`."""

    def __init__(self, *, hangs: bool) -> None:
        """Be broken."""
        self.broken, self._hangs = True, hangs
        self.calls = 0
        self._mended = threading.Event()

    def __call__(self, _rousal: rouse.Rousal) -> None:
        """Reseed, or not."""
        self.calls += 1
        if self._hangs:
            self._mended.wait(PATIENCE_SECONDS)
        elif self.broken:
            raise ValueError("no entropy")

    def mend(self) -> None:
        """Succeed from now on."""
        self.broken = False
        self._mended.set()


@contextmanager
def callback(*, hangs: bool) -> Iterator[Callback]:
    """Have a broken callback among those of the process."""
    broken = Callback(hangs=hangs)
    registered = rouse.on_rousal(broken, phase=rouse.Phase.RESEED)
    try:
        yield broken
    finally:
        broken.mend()
        registered.take_back()


@pytest.fixture(autouse=True)
def _afresh(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nobody was asked; a callback is slow at once, so that no test waits; the process's registry is sound afterwards."""
    HELD[:], ATTEMPTS[:], FAILS[:] = [asyncio.Queue()], [], []
    monkeypatch.setattr(standing_file, "_SLOW_SECONDS", 0.0)
    caplog.set_level(logging.WARNING, logger="torpor")
    yield
    rouse.mend()


async def shut(worker: Any, broken: Callback) -> None:
    """Let its machine sleep, and wait until its gate is shut and it has said so."""
    asleep(worker)
    assert not worker.standing.look()
    worker.look_now.set()
    await asyncio.wait_for(until(lambda: broken.calls and worker.standing.shut), PATIENCE_SECONDS)


async def asked_to_stop(worker: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Ask it to stop, and wait until it has looked at its gate since."""
    worker.stop()
    there = "this worker is asked to stop, and ends in"
    await asyncio.wait_for(until(lambda: worker.standing.gone or there in caplog.text), PATIENCE_SECONDS)
    assert worker.standing.gone == ""


async def ended(worker: Any) -> None:
    """Wait until it is gone."""
    await asyncio.wait([worker._running], timeout=PATIENCE_SECONDS)  # noqa: SLF001 - it ends by itself
    assert worker._running.done()  # noqa: SLF001 - as above


@pytest.mark.parametrize("hangs", [True, False], ids=["hangs", "fails"])
@pytest.mark.parametrize("mended", ["while it acts", "later"])
def test_what_acts_is_recorded(
    store: Store, moment: Moment, caplog: pytest.LogCaptureFixture, mended: str, *, hangs: bool
) -> None:
    """It waits for the effect, and for the gate behind which the outcome waits; and claims nothing when that opens."""

    async def check(lab: Lab) -> None:
        worker: Any = await lab.worker()
        with callback(hangs=hangs) as broken:
            run = await lab.start(acts)
            acting = await asked()
            await shut(worker, broken)
            other = await lab.start(looks)
            await asked_to_stop(worker, caplog)
            if mended == "while it acts":
                broken.mend()
                await asyncio.wait_for(until(worker.standing.ok), PATIENCE_SECONDS)
            acting.set_result("sent")
            broken.mend()
            await ended(worker)
        assert worker.standing.gone == ""
        await lab.drain()
        assert (await lab.state(run), await lab.state(other)) == ("ready", "ready")
        assert [effect.state for effect in await lab.effects(run)] == ["done"]
        assert await lab.store.transact(lambda tx: (tx.all_leases(limit=9), tx.workers())) == ([], [])
        result = asyncio.ensure_future(lab.result(run))
        (await asked()).set_result("read")
        assert await result == "sent"
        assert len(caplog.messages) == len(set(caplog.messages)), "nothing is said again and again"

    on(store, moment, app, check)


@pytest.mark.parametrize("hangs", [True, False], ids=["hangs", "fails"])
def test_what_a_step_gave_is_recorded(
    store: Store, moment: Moment, caplog: pytest.LogCaptureFixture, *, hangs: bool
) -> None:
    """Its commit waits: work is not thrown away, and the next worker goes on behind it."""

    async def check(lab: Lab) -> None:
        worker: Any = await lab.worker()
        with callback(hangs=hangs) as broken:
            run = await lab.start(looks)
            reading = await asked()
            await shut(worker, broken)
            reading.set_result("read")
            (executor,) = worker.executors.values()
            await asyncio.wait_for(until(lambda: executor.commits.under_way), PATIENCE_SECONDS)
            await asked_to_stop(worker, caplog)
            broken.mend()
            await ended(worker)
        assert worker.standing.gone == ""
        await lab.drain()
        assert await lab.result(run) == "read"
        assert HELD[-1].empty()

    on(store, moment, app, check)


def test_what_is_behind_its_intent_begins_and_is_recorded(
    store: Store, moment: Moment, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody could tell that it did not act, and a person would be asked (G4)."""
    faulty, answer = FaultyStore(store), HeldAnswer()
    faulty.fault = once(commits_of("intent sends#1"), answer)

    async def check(lab: Lab) -> None:
        worker: Any = await lab.worker()
        with callback(hangs=True) as broken:
            run = await lab.start(acts)
            await asyncio.wait_for(answer.reached.wait(), PATIENCE_SECONDS)
            await shut(worker, broken)
            answer.released.set()
            await asyncio.wait_for(until(lambda: worker.gate.busy), PATIENCE_SECONDS)
            await asked_to_stop(worker, caplog)
            broken.mend()
            (await asked()).set_result("sent")
            await ended(worker)
        await lab.drain()
        assert await lab.result(run) == "sent"

    on(faulty, moment, app, check)


@pytest.mark.parametrize("hangs", [True, False], ids=["hangs", "fails"])
def test_nobody_waits_longer_than_the_drain(store: Store, moment: Moment, *, hangs: bool) -> None:
    """Then it is gone for the reason that its gate is shut, and a person is asked about what acted."""

    async def check(lab: Lab) -> None:
        worker: Any = await lab.worker()
        worker.stopping._drain_seconds = 0.3  # noqa: SLF001 - no test waits half a minute
        with callback(hangs=hangs) as broken:
            run = await lab.start(acts)
            acting = await asked()
            await shut(worker, broken)
            worker.stop()
            await ended(worker)
        acting.cancel()
        why = "Callback object at .* in RESEED has not returned" if hangs else "failed in RESEED after .*no entropy"
        assert re.search(why, worker.standing.gone), worker.standing.gone
        rouse.mend()
        await lab.drain()
        await lab.settle()
        assert await lab.state(run) == "waiting"

    on(store, moment, app, check)


async def draining(worker: Any) -> Any:
    """Ask it to stop, wait until its run is being given back, and return its executor."""
    (executor,) = worker.executors.values()
    worker.stop()
    await asyncio.wait_for(until(lambda: executor.draining), PATIENCE_SECONDS)
    return executor


def test_what_is_to_be_tried_again_is_the_next_workers(store: Store, moment: Moment) -> None:
    """Its pause ends in a drain that waits for another effect: nothing begins."""

    async def check(lab: Lab) -> None:
        worker: Any = await lab.worker()
        FAILS.append(ConnectionError("busy"))
        run = await lab.start(both)
        acting = await asked()
        (executor,) = worker.executors.values()
        await asyncio.wait_for(until(lambda: executor.progress.waiting), PATIENCE_SECONDS)
        await draining(worker)
        moment.advance(1.0)
        executor.see_next()
        assert [call.request.name for call in executor.progress.effects.going.values()] == ["sends"]
        assert ATTEMPTS == [1]
        acting.set_result("sent")
        await ended(worker)
        assert ATTEMPTS == [1]
        await lab.drain()
        assert await lab.state(run) == "ready"
        assert [effect.state for effect in await lab.effects(run)].count("done") == 1

    on(store, moment, app, check)


def test_what_stands_at_its_gate_and_has_a_key_is_the_next_workers(store: Store, moment: Moment) -> None:
    """It begins there under the same intent; only one that nobody could tell of begins in a drain."""
    faulty, answer = FaultyStore(store), HeldAnswer()
    faulty.fault = times(1, look, answer)

    async def check(lab: Lab) -> None:
        worker: Any = await lab.worker()
        run = await lab.start(pays_once)
        await asyncio.wait_for(answer.reached.wait(), PATIENCE_SECONDS)
        await draining(worker)
        answer.released.set()
        await ended(worker)
        assert ATTEMPTS == []
        await lab.drain()
        assert await lab.state(run) == "ready"
        result = asyncio.ensure_future(lab.result(run))
        (await asked()).set_result("paid")
        assert await result == "paid"
        assert ATTEMPTS == [1]

    on(faulty, moment, app, check)
