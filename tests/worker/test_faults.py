"""What goes wrong between a worker and its store: answers lost, store away, leases lost, clocks that jumped (G1, G2, G3)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.rouse.clocks_by_hand import ClocksByHand
from tests.worker.counter import COUNTER
from tests.worker.labs import FaultyStore, Hold, no_fault, on, once, times
from torpor import App, Context
from torpor.core.commit import Proposal
from torpor.core.journal import Entry, Kind
from torpor.core.lease import Fence
from torpor.engine import leases, waits
from torpor.engine.commit import commit
from torpor.engine.effects import look
from torpor.testing import Lab
from torpor.testing.sweeping import sweep

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.stores import Moment
    from torpor.core.run import State
    from torpor.store.protocol import Store
    from torpor.worker import roles
    from torpor.worker.executor import Executor

app = App()
GATES: list[asyncio.Event] = []
LEASE_SECONDS = 3600.0
"""Where a lease must not be renewed by its thread's own clock meanwhile."""


@app.effect
async def charge(amount: int) -> int:
    """Charge, at once or when the test lets it end."""
    COUNTER.act("charge")
    if GATES:
        GATES[0].set()
        await GATES[1].wait()
    return amount


@app.step
async def slow() -> str:
    """Run until the test lets it end."""
    COUNTER.act("slow")
    if GATES:
        GATES[0].set()
        await GATES[1].wait()
    return "slow"


@app.step
async def quick(n: int) -> int:
    """Return at once."""
    return n


@app.flow
async def shop(ctx: Context, state: list[int]) -> Any:
    """Charge for each, one turn each, with a step and a sleep between."""
    if state:
        await ctx.step(quick, state[0])
        await ctx.effect(charge, state[0])
        await ctx.sleep(5)
        return ctx.again(state[1:])
    return "sold"


@app.flow
async def one_step(ctx: Context) -> str:
    """Run the slow step."""
    return await ctx.step(slow)


@app.flow
async def one_effect(ctx: Context) -> int:
    """Charge once."""
    return await ctx.effect(charge, 7)


class Deaf:
    """A listener that hears nothing."""

    def close(self) -> None:
        """Never heard anything."""


@app.flow
async def listens(ctx: Context) -> Any:
    """Wait for a message while a step runs."""
    step = asyncio.create_task(ctx.step(slow))
    heard = await ctx.receive("stop")
    return heard, step.done()


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["lost", "away"])
def test_a_commit_whose_answer_is_lost_is_found_out(store: Store, moment: Moment, fault: str) -> None:
    """After the commit or before it, at each commit in turn: nothing is lost, nothing is repeated (G3)."""
    faulty = FaultyStore(store)

    async def check(lab: Lab) -> None:
        for n in range(1, 13):
            COUNTER.clear()
            seen = [0]

            def nth(op: Any, args: tuple[Any, ...], n: int = n, seen: list[int] = seen) -> str | None:
                del args
                seen[0] += op is commit
                return fault if op is commit and seen[0] == n else None

            faulty.fault = nth
            assert await lab.result(await lab.start(shop, [1, 2])) == "sold", n
            assert COUNTER.count == 2, n
        assert faulty.faults == 12

    on(faulty, moment, app, check)


def test_the_store_may_be_away_for_a_while(store: Store, moment: Moment) -> None:
    """Whatever the worker asks for: it waits, and goes on."""
    faulty = FaultyStore(store)

    async def check(lab: Lab) -> None:
        for op in (commit, look, leases.claim):
            COUNTER.clear()
            faulty.fault = times(2, op, "away")
            assert await lab.result(await lab.start(shop, [1])) == "sold", op
            assert COUNTER.count == 1

    on(faulty, moment, app, check)


@pytest.mark.slow
@pytest.mark.parametrize("away_first", [False, True])
def test_one_bad_commit_fails_alone(store: Store, moment: Moment, *, away_first: bool) -> None:
    """What the store cannot take of one run disturbs no other run, and its own goes to a person (G13)."""
    faulty = FaultyStore(store)

    async def check(lab: Lab) -> None:
        bad = await lab.start(one_effect)
        good = [await lab.start(one_effect) for _ in range(5)]
        ends: list[tuple[str, int]] = []
        away = [away_first]

        def fault(op: Any, args: tuple[Any, ...]) -> Any:
            if op is not commit or not any(p.run_id == bad.number and p.has_intent for p in args[0]):
                return None
            if away.pop() if away else False:
                return "away"
            return ZeroDivisionError("the store cannot take this")

        faulty.fault = fault
        worker = await lab.worker()
        told = worker.on_event

        def heard(event: str, executor: roles.Executor, state: State) -> None:
            ends.append((event, executor.run.id))
            told(event, executor, state)

        worker.on_event = heard
        for number in range(1, 4):
            while ends.count(("lost", bad.number)) < number or not {("left", run.number) for run in good} <= {*ends}:
                await lab.change()
            lab.advance(46)
            await lab.store.transact(sweep, {})
        assert [await lab.result(run) for run in good] == [7] * 5
        (wait,) = [wait for wait in await lab.waits(bad) if wait.for_person]
        assert wait.show["trouble"] == "poison"
        faulty.fault = no_fault
        await lab.answer(wait, again=True)
        assert await lab.result(bad) == 7

    on(faulty, moment, app, check)


def test_a_lost_hint_is_made_up_for_by_the_poll(store: Store, moment: Moment) -> None:
    """A signal whose hint nobody heard reaches a run that is busy, within ticks (G7)."""
    faulty = FaultyStore(store)
    GATES[:] = [asyncio.Event(), asyncio.Event()]

    async def check(lab: Lab) -> None:
        run = await lab.start(listens)
        await lab.worker()
        await GATES[0].wait()
        await lab.signal(run, "stop", "now")
        await lab.settle()
        assert await lab.result(run) == ("now", False)

    faulty.__dict__["listen"] = lambda _heard, **_more: Deaf()
    try:
        on(faulty, moment, app, check, lease_seconds=LEASE_SECONDS)
    finally:
        GATES.clear()


def test_a_cancel_nobody_heard_reaches_a_running_step(store: Store, moment: Moment) -> None:
    """Within ticks, long before the next renewal (G12)."""
    faulty = FaultyStore(store)
    GATES[:] = [asyncio.Event(), asyncio.Event()]

    async def check(lab: Lab) -> None:
        run = await lab.start(one_step)
        await lab.worker()
        await GATES[0].wait()
        await lab.cancel(run)
        await lab.settle()
        assert await lab.state(run) == "cancelled"

    faulty.__dict__["listen"] = lambda _heard, **_more: Deaf()
    try:
        on(faulty, moment, app, check, lease_seconds=LEASE_SECONDS)
    finally:
        GATES.clear()


async def two_labs(store: Store, moment: Moment) -> AsyncIterator[tuple[Lab, Lab]]:
    """Give two labs on one store, each with a worker of its own; the first one's takes one run at a time."""
    async with (
        Lab(app, store=store, clock=moment, concurrency=1, lease_seconds=LEASE_SECONDS) as first,
        Lab(app, store=store, clock=moment) as second,
    ):
        yield first, second


@pytest.mark.parametrize("flow", [one_step, one_effect])
def test_a_lease_that_was_reaped_is_lost(store: Store, moment: Moment, flow: Any) -> None:
    """The first worker's late result changes nothing; a `once` effect's settles its own unknown (G1, G18)."""
    GATES[:] = [asyncio.Event(), asyncio.Event()]

    async def main() -> None:
        async for first, second in two_labs(store, moment):
            run = await first.start(flow)
            await first.worker()
            await GATES[0].wait()
            gate = GATES.copy()
            GATES.clear()
            moment.advance(LEASE_SECONDS + 1)
            await second.settle()
            if flow is one_effect:
                assert [effect.state for effect in await second.effects(run)] == ["unknown"]
                gate[1].set()
                async with asyncio.timeout(PATIENCE_SECONDS):
                    while await second.state(run) != "completed":
                        await second.change()
                        await second.settle()
                assert await second.result(run) == 7
                assert COUNTER.count == 1
            else:
                assert await second.result(run) == "slow"
                head = len(await second.journal(run))
                gate[1].set()
                await first.drain()
                assert len(await second.journal(run)) == head
                assert COUNTER.count == 2

    COUNTER.clear()
    try:
        asyncio.run(main())
    finally:
        GATES.clear()


def test_a_gate_that_finds_another_holder_starts_nothing(store: Store, moment: Moment) -> None:
    """Reaped between the intent and the gate's look: the effect does not start (G4)."""
    faulty = FaultyStore(store)

    async def main() -> None:
        held = Hold()
        faulty.fault = once(lambda op, _args: op is look, held)
        async with (
            Lab(app, store=faulty, clock=moment, concurrency=1, lease_seconds=LEASE_SECONDS) as first,
            Lab(app, store=store, clock=moment) as second,
        ):
            run = await first.start(one_effect)
            await first.worker()
            await held.reached.wait()
            moment.advance(LEASE_SECONDS + 1)
            await second.settle()
            held.released.set()
            await first.drain()
            assert COUNTER.count == 0
            (effect,) = await second.effects(run)
            assert effect.state == "unknown"

    COUNTER.clear()
    asyncio.run(main())


def test_a_foreign_head_stops_the_executor(store: Store, moment: Moment) -> None:
    """Somebody with the same token and epoch wrote: a renewal sees it, before the next commit would (G2)."""
    GATES[:] = [asyncio.Event(), asyncio.Event()]

    async def check(lab: Lab) -> None:
        run = await lab.start(one_step)
        worker: Any = await lab.worker()
        await GATES[0].wait()
        executor: Executor = worker.executors[run.number]
        lease = executor.lease
        stranger = Proposal(run.number, lease.token, lease.epoch, executor.head, [Entry(Kind.NOTE, None, b"1")])
        assert (await lab.store.transact(commit, [stranger]))[0].refused is None
        lost = asyncio.Event()
        worker.on_event = lambda event, *_: lost.set() if event == "lost" else None
        await asyncio.to_thread(worker._renewals.now)  # noqa: SLF001 - what its thread does at its time
        await lost.wait()
        GATES[1].set()
        again = await lab.store.transact(commit, [stranger])
        assert again[0].refused is Fence.LOST
        assert [line.kind for line in await lab.journal(run)] == ["note"]

    try:
        on(store, moment, app, check)
    finally:
        GATES.clear()


def watched(worker: Any) -> list[int]:
    """Note each renewal that the worker makes at once, not by its thread's own clock."""
    renewed: list[int] = []
    renewals = worker._renewals.now  # noqa: SLF001 - the only place that knows

    def now() -> Any:
        renewed.append(len(renewed))
        return renewals()

    worker._renewals.now = now  # noqa: SLF001 - as above
    return renewed


@pytest.mark.parametrize("taken", [False, True])
def test_after_a_gap_in_its_clocks_the_worker_looks_first(store: Store, moment: Moment, *, taken: bool) -> None:
    """A machine that slept checks every lease before it commits or acts; what was taken is dropped (G2)."""
    GATES[:] = [asyncio.Event(), asyncio.Event()]

    async def main() -> None:
        async for first, second in two_labs(store, moment):
            run = await first.start(one_step)
            worker: Any = await first.worker()
            clocks = ClocksByHand()
            worker.standing._watcher = clocks.watcher(tick_seconds=1.0)  # noqa: SLF001 - clocks by hand
            await GATES[0].wait()
            gate = GATES.copy()
            GATES.clear()
            renewed = watched(worker)
            if taken:
                moment.advance(7200)
                await second.settle()
            clocks.suspend(7200)
            assert not worker.standing.look()
            gate[1].set()
            if taken:
                assert await second.result(run) == "slow"
            else:
                assert await first.result(run) == "slow"
            await first.drain()
            assert renewed
            assert [line.epoch for line in await second.journal(run)] == ([2, 2] if taken else [1, 1])

    try:
        asyncio.run(main())
    finally:
        GATES.clear()


def test_a_commit_of_a_wrong_epoch_is_refused(store: Store, moment: Moment) -> None:
    """Old epoch, old token, old head: each alone is enough (G1)."""

    async def check(lab: Lab) -> None:
        run = await lab.start(one_effect)
        await lab.result(run)
        entry = Entry(Kind.NOTE, None, b"1")
        for token, epoch, head in ((1, 1, 3), (1, 2, 0)):
            reply = (await lab.store.transact(commit, [Proposal(run.number, token, epoch, head, [entry])]))[0]
            assert reply.refused is Fence.LOST

    on(store, moment, app, check)


def test_a_sweep_does_not_bring_back_what_ended(store: Store, moment: Moment) -> None:
    """Timers of a run that is completed fire nothing (protocol, Sweeps)."""

    async def check(lab: Lab) -> None:
        run = await lab.start(shop, [1])
        assert await lab.result(run) == "sold"
        lab.advance(100)
        assert (await lab.store.transact(waits.fire_timers)).done == 0
        assert await lab.state(run) == "completed"

    on(store, moment, app, check)
