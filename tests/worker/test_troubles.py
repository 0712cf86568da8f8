"""What a person is asked, and what each answer does: unknown effects, divergence, poison (G4, G13, G18)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.worker.counter import COUNTER
from tests.worker.labs import on
from torpor import CANNOT_TELL, NOT_DONE, App, Context, EffectContext, NotDone, RunFailed, StepFailed, done
from torpor.core.run import POISON_TAKEOVERS
from torpor.store.rows import RunChange
from torpor.testing import Place

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab, Run

app = App()
RAISES: list[BaseException] = []
SAYS: list[Any] = []


@app.effect
async def charge(amount: int) -> int:
    """Charge once, or raise what the test wants."""
    COUNTER.act(str(amount))
    if RAISES:
        raise RAISES.pop(0)
    return amount


@app.flow
async def charges(ctx: Context) -> Any:
    """Charge, and tell what came of it."""
    try:
        return await ctx.effect(charge, 7)
    except StepFailed as error:
        return "failed", error.kind, error.detail


async def interrupted(lab: Lab, flow: Any = charges) -> Run:
    """Return a run whose worker was killed after its effect acted."""
    COUNTER.clear()
    lab.crash(Place.ACTED)  # first: a worker that is there claims the run at once
    run = await lab.start(flow)
    await lab.settle()
    lab.crash(Place.UNDISTURBED)
    return run


@pytest.mark.parametrize(
    ("answer", "result", "count"),
    [
        ({"happened": 70}, 70, 1),
        ({"again": True}, 7, 2),
        ({"fail": "refused by the bank"}, ("failed", "Settled", "refused by the bank"), 1),
    ],
)
def test_a_person_settles_an_unknown_effect(
    store: Store, moment: Moment, answer: dict[str, Any], result: Any, count: int
) -> None:
    """It happened, do it again, or it failed: each is final, and the waiting run says what is wrong."""

    async def check(lab: Lab) -> None:
        run = await interrupted(lab)
        (wait,) = [wait for wait in await lab.waits(run) if wait.for_person]
        assert wait.kind == "attention"
        assert wait.show["trouble"] == "unknown_effect"
        assert list(wait.show["args"]) == [7]
        assert (await lab.effects(run))[0].state == "unknown"
        await lab.answer(wait, **answer)
        assert await lab.result(run) == result
        assert COUNTER.count == count

    on(store, moment, app, check)


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_answer_outlives_another_trouble(store: Store, moment: Moment, when: str) -> None:
    """Workers die while it is not consumed, and a person is asked about that as well: neither question ends the other."""

    async def check(lab: Lab) -> None:
        run = await interrupted(lab)
        (effect,) = [wait for wait in await lab.waits(run) if wait.for_person]
        stalled = RunChange(run.number, stalls=POISON_TAKEOVERS)
        await lab.store.transact(lambda tx: tx.change_runs([stalled]))
        if when == "before":
            await lab.answer(effect, happened=70)
        else:
            await lab.signal(run, "stray", "which wakes it")
        await lab.settle()
        poison = next(wait for wait in await lab.waits(run) if wait.show["trouble"] == "poison")
        await lab.answer(poison, again=True)
        await lab.settle()
        if when == "after":
            await lab.answer(effect, happened=70)
        assert await lab.result(run) == 70
        assert COUNTER.count == 1

    on(store, moment, app, check)


@pytest.mark.slow
def test_an_answer_is_used_once_wherever_the_worker_dies(store: Store, moment: Moment) -> None:
    """To say again means once more, not as often as workers die afterwards."""

    def before() -> None:
        COUNTER.clear()
        RAISES[:] = [OSError()]

    async def drive(lab: Lab, run: Run) -> None:
        await lab.settle()
        while any(effect.state == "unknown" for effect in await lab.effects(run)):
            await lab.answer(run, again=True)
            await lab.settle()

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(charges, drive=drive, before=before):
            assert await crash.result() == 7, crash
            again = sum(effect.intents for effect in await crash.effects())
            assert COUNTER.count <= again, crash

    on(store, moment, app, check)


def test_an_exception_of_a_once_effect_is_unknown(store: Store, moment: Moment) -> None:
    """Only `NotDone` says that it certainly did not happen."""

    async def check(lab: Lab) -> None:
        RAISES[:] = [ConnectionError("cut")]
        run = await lab.start(charges)
        await lab.settle()
        (wait,) = [wait for wait in await lab.waits(run) if wait.for_person]
        assert "ConnectionError: cut" in wait.show["why"]
        await lab.answer(wait, happened=1)
        assert await lab.result(run) == 1
        RAISES[:] = [NotDone("no money")]
        assert await lab.result(await lab.start(charges)) == ("failed", "NotDone", "no money")
        assert COUNTER.count == 2

    on(store, moment, app, check)


@app.effect(verify=lambda _key: SAYS.pop(0))
async def send(ctx: EffectContext) -> str:
    """Send what can be looked for."""
    COUNTER.act(ctx.key)
    return "sent"


@app.flow
async def sends(ctx: Context) -> Any:
    """Send."""
    return await ctx.effect(send)


@pytest.mark.parametrize(
    ("says", "result", "count"),
    [(done("found"), "found", 1), (True, None, 1), (NOT_DONE, "sent", 2), (False, "sent", 2), (CANNOT_TELL, None, 1)],
)
def test_verify_decides_if_it_can(store: Store, moment: Moment, says: Any, result: Any, count: int) -> None:
    """Done, with or without a result; not done; cannot tell: then a person is asked."""

    async def check(lab: Lab) -> None:
        SAYS[:] = [says]
        run = await interrupted(lab, sends)
        if says is CANNOT_TELL:
            (wait,) = [wait for wait in await lab.waits(run) if wait.for_person]
            assert "cannot tell" in wait.show["why"]
            await lab.answer(wait, happened=None)
        assert await lab.result(run) == result
        assert COUNTER.count == count

    on(store, moment, app, check)


def test_a_verify_that_raises_cannot_tell(store: Store, moment: Moment) -> None:
    """Its error is shown to the person."""

    async def check(lab: Lab) -> None:
        SAYS.clear()
        run = await interrupted(lab, sends)
        (wait,) = [wait for wait in await lab.waits(run) if wait.for_person]
        assert "IndexError" in wait.show["why"]

    on(store, moment, app, check)


CODE: dict[str, Any] = {}


@app.effect
async def publish(what: str) -> str:
    """Publish."""
    COUNTER.act(what)
    return what


@app.flow
async def deployed(ctx: Context) -> Any:
    """Do what the deployed code does."""
    await ctx.effect(publish, CODE["first"])
    await ctx.sleep(60)
    if CODE.get("second"):
        await ctx.effect(publish, CODE["second"])
    return CODE["first"]


@pytest.mark.parametrize("ending", ["again", "fail", "again too early"])
def test_a_diverged_run_waits_with_both_sides(store: Store, moment: Moment, ending: str) -> None:
    """The effect does not start; with the old code back the run goes on, or a person ends it (G13)."""

    async def check(lab: Lab) -> None:
        CODE.update(first="a", second="")
        run = await lab.start(deployed)
        await lab.settle()
        CODE["first"] = "b"
        lab.advance(60)
        await lab.settle()
        assert COUNTER.calls == ["a"]
        (wait,) = [wait for wait in await lab.waits(run) if wait.for_person]
        assert wait.show["trouble"] == "diverged"
        assert wait.show["recorded"].startswith("publish")
        assert "publish" in wait.show["asked"]
        if ending == "fail":
            await lab.answer(wait, fail="old nonsense")
            with pytest.raises(RunFailed, match="old nonsense"):
                await lab.result(run)
            return
        if ending == "again too early":
            await lab.answer(wait, again=True)
            await lab.settle()
            (wait,) = [wait for wait in await lab.waits(run) if wait.for_person and not wait.answered]
        CODE["first"] = "a"
        await lab.answer(wait, again=True)
        assert await lab.result(run) == "a"
        assert COUNTER.calls == ["a"]

    on(store, moment, app, check)


def test_a_signal_does_not_move_a_diverged_run(store: Store, moment: Moment) -> None:
    """It wakes, diverges again, and asks the same question, not a second one."""

    async def check(lab: Lab) -> None:
        CODE.update(first="a", second="")
        run = await lab.start(deployed)
        await lab.settle()
        CODE["first"] = "b"
        lab.advance(60)
        await lab.settle()
        await lab.signal(run, "hello")
        await lab.settle()
        assert len([wait for wait in await lab.waits(run) if wait.for_person]) == 1
        CODE["first"] = "a"
        await lab.answer(run, again=True)
        assert await lab.result(run) == "a"

    on(store, moment, app, check)


@app.step
async def harmless() -> str:
    """Do nothing wrong: its workers are killed by the test."""
    return "harmless"


@app.flow
async def poisoned(ctx: Context) -> str:
    """Run the step."""
    return await ctx.step(harmless)


@pytest.mark.parametrize("answer", [{"again": True}, {"fail": "enough"}])
def test_a_run_that_kills_workers_is_stopped(store: Store, moment: Moment, answer: dict[str, Any]) -> None:
    """Three takeovers without an entry: a person decides (G13)."""

    async def check(lab: Lab) -> None:
        lab.crash(Place.AFTER, times=3)  # each after its claim
        run = await lab.start(poisoned)
        await lab.settle()
        assert lab.deaths == 3
        (wait,) = [wait for wait in await lab.waits(run) if wait.for_person]
        assert wait.show["trouble"] == "poison"
        assert await lab.state(run) == "waiting"
        if "fail" in answer:
            await lab.answer(wait, **answer)
            with pytest.raises(RunFailed, match="enough"):
                await lab.result(run)
            return
        lab.crash(Place.AFTER, times=3)
        await lab.answer(wait, **answer)
        await lab.settle()
        (wait,) = [wait for wait in await lab.waits(run) if wait.for_person and not wait.answered]
        await lab.answer(wait, again=True)
        assert await lab.result(run) == "harmless"

    on(store, moment, app, check)
