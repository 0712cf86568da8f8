"""Consent: exact, used once, the first decision wins, anything else fails closed (G10)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.worker.counter import COUNTER
from tests.worker.labs import FaultyStore, Hold, commits_of, on, once
from torpor import App, Conflict, Context, NotFound, days
from torpor.engine.commit import commit
from torpor.testing.mortal import described

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab, Run

app = App()


@app.effect(safety="keyed")
async def send(what: str) -> None:
    """Act on consent."""
    COUNTER.act(what)


@app.flow
async def asks(ctx: Context, what: str) -> Any:
    """Ask, then act."""
    answer = await ctx.approval("Send?", show={"what": what}, expires=days(7))
    if answer:
        await ctx.effect(send, what)
    return answer.approved, answer.by, answer.note, answer.expired


@pytest.mark.slow
@pytest.mark.parametrize("decision", ["approve", "deny", "expire"])
def test_a_decision_holds_wherever_the_worker_dies(store: Store, moment: Moment, decision: str) -> None:
    """Approved acts once, denied and expired never."""

    async def drive(lab: Lab, run: Run) -> None:
        await lab.settle()
        if decision == "approve":
            await lab.approve(run, by="ada", note="fine")
        elif decision == "deny":
            await lab.deny(run, by="bob")
        else:
            lab.advance(days(7))
        await lab.settle()

    expected = {
        "approve": (True, "ada", "fine", False),
        "deny": (False, "bob", "", False),
        "expire": (False, "", "", True),
    }[decision]

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(asks, "x", drive=drive, before=COUNTER.clear):
            assert await crash.result() == expected, crash
            assert len(set(COUNTER.calls)) == (1 if decision == "approve" else 0), crash
            consumed = [line for line in await crash.journal() if line.kind == "consumed"]
            assert len(consumed) == 1, crash

    on(store, moment, app, check)


def test_the_first_decision_wins(store: Store, moment: Moment) -> None:
    """The second one gets a conflict and changes nothing, also after the run has gone on."""

    async def check(lab: Lab) -> None:
        run = await lab.start(asks, "x")
        await lab.settle()
        wait = next(wait for wait in await lab.waits(run) if wait.kind == "approval")
        assert wait.show["show"] == {"what": "x"}
        await lab.deny(wait, by="first")
        with pytest.raises(Conflict):
            await lab.approve(wait, by="second")
        assert await lab.result(run) == (False, "first", "", False)
        with pytest.raises(Conflict):
            await lab.approve(wait, by="third")

    on(store, moment, app, check)


def test_a_decision_after_the_expiry_is_refused(store: Store, moment: Moment) -> None:
    """Before the run notices that it expired, too."""

    async def check(lab: Lab) -> None:
        run = await lab.start(asks, "x")
        await lab.settle()
        lab.advance(days(7))
        with pytest.raises(Conflict, match="expired"):
            await lab.approve(run)
        assert await lab.result(run) == (False, "", "", True)

    on(store, moment, app, check)


def test_a_decision_before_the_expiry_wins_though_the_run_looks_later(store: Store, moment: Moment) -> None:
    """The decision is durable: that the run wakes after the expiry changes nothing."""

    async def check(lab: Lab) -> None:
        run = await lab.start(asks, "x")
        await lab.settle()
        lab.advance(days(6))
        await lab.approve(run, by="ada")
        lab.advance(days(6))
        assert await lab.result(run) == (True, "ada", "", False)

    on(store, moment, app, check)


@app.flow
async def gives_up(ctx: Context) -> Any:
    """Ask with a timeout of its own; later ask again."""
    try:
        async with asyncio.timeout(60):
            first: Any = bool(await ctx.approval("Now?"))
    except TimeoutError:
        first = "gave up"
    again = await ctx.approval("Later?")
    return first, again.approved


@pytest.mark.slow
def test_a_withdrawn_approval_cannot_be_answered(store: Store, moment: Moment) -> None:
    """Consent for a question the code gave up is refused, and not taken for another one."""

    async def drive(lab: Lab, run: Run) -> None:
        await lab.settle()
        old = next(wait for wait in await lab.waits(run) if wait.kind == "approval")
        lab.advance(60)
        await lab.settle()
        with pytest.raises(Conflict):
            await lab.approve(old)
        await lab.deny("Later?")
        await lab.settle()

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(gives_up, drive=drive):
            assert await crash.result() == ("gave up", False), crash

    on(store, moment, app, check)


@pytest.mark.slow
def test_a_decision_at_the_moment_of_withdrawal_wins(store: Store, moment: Moment) -> None:
    """A timer and a decision at once: the earlier one wins, in every replay."""

    async def drive(lab: Lab, _run: Run) -> None:
        await lab.settle()
        lab.advance(60)
        await lab.approve("Now?")
        await lab.settle()
        await lab.approve("Later?")
        await lab.settle()

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(gives_up, drive=drive):
            assert await crash.result() == (True, True), crash

    on(store, moment, app, check)


@app.flow
async def both(ctx: Context) -> Any:
    """Ask two questions of equal title at once."""
    answers = await asyncio.gather(
        ctx.approval("Ok?", show=1), ctx.approval("Ok?", show=2), ctx.approval("Ok?", show=2)
    )
    return [answer.by for answer in answers]


@pytest.mark.slow
def test_parallel_questions_are_told_apart(store: Store, moment: Moment) -> None:
    """Equal titles, even equal contents: each has its own answer."""

    async def drive(lab: Lab, run: Run) -> None:
        await lab.settle()
        waits = [wait for wait in await lab.waits(run) if wait.kind == "approval"]
        with pytest.raises(NotFound, match="3 open waits fit"):
            await lab.approve(run)
        for n, wait in reversed(list(enumerate(waits))):
            await lab.approve(wait, by=f"{wait.show['show']} {n}")
            await lab.settle()

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(both, drive=drive):
            assert await crash.result() == ["1 0", "2 1", "2 2"], crash

    on(store, moment, app, check)


@app.flow
async def takes_next(ctx: Context) -> Any:
    """Withdraw a question in the same commit that consumes a waiting message."""
    asked = asyncio.create_task(ctx.approval("Sure?"))
    first = await ctx.receive("go")
    asked.cancel()
    second = await ctx.receive("next")
    return first, second


def test_a_decision_that_beats_a_withdrawal_loses_no_message(store: Store, moment: Moment) -> None:
    """The refused commit also carried a message: it is delivered all the same (G7)."""
    faulty = FaultyStore(store)

    async def check(lab: Lab) -> None:
        run = await lab.start(takes_next)
        await lab.settle()
        await lab.kill()  # nobody takes the run up between the two signals
        await lab.signal(run, "go", 1)
        await lab.signal(run, "next", 2)
        held = Hold()
        faulty.fault = once(commits_of("note", "consumed next#1"), held)
        settling = asyncio.create_task(lab.settle())
        await held.reached.wait()
        await lab.approve("Sure?")
        held.released.set()
        await settling
        assert await lab.result(run) == (1, 2)

    on(faulty, moment, app, check)


ASKING: list[asyncio.Task[Any]] = []


@app.flow
async def thinks_again(ctx: Context) -> Any:
    """Ask, and give the question up before anybody can have seen it; another one stands beside it."""
    asking = asyncio.create_task(ctx.approval("Never?"))
    other = asyncio.create_task(ctx.approval("Now?"))
    await asyncio.sleep(0)
    asking.cancel()
    return (await other).by


async def open_questions(lab: Lab) -> list[str]:
    """Return what is in the inbox."""
    return [row.title for row in await lab.store.transact(lambda tx: tx.people_waits(limit=9))]


@pytest.mark.slow
def test_a_question_given_up_at_once_was_never_asked(store: Store, moment: Moment) -> None:
    """It is neither in the inbox nor in the journal, and what stands beside it is answered as itself."""

    async def drive(lab: Lab, _run: Run) -> None:
        await lab.settle()
        assert await open_questions(lab) == ["Now?"]
        await lab.approve("Now?", by="ada")
        await lab.settle()

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(thinks_again, drive=drive):
            assert await crash.result() == "ada", crash
            assert not any("Never?" in str(line) for line in await crash.journal()), crash

    on(store, moment, app, check)


@app.flow
async def forgets(ctx: Context) -> str:
    """End with a question that nobody waits for."""
    ASKING.append(asyncio.create_task(ctx.approval("Whatever?")))
    await asyncio.sleep(0)
    return "ended"


def test_a_question_that_ends_with_its_run_is_not_left_behind(store: Store, moment: Moment) -> None:
    """The inbox is empty when the run has ended."""

    async def check(lab: Lab) -> None:
        assert await lab.result(await lab.start(forgets)) == "ended"
        assert await open_questions(lab) == []

    on(store, moment, app, check)


ENOUGH: list[asyncio.Event] = []


@app.step
async def work() -> str:
    """Work until it is enough."""
    await ENOUGH[0].wait()
    return "worked"


@app.flow
async def asks_beside(ctx: Context) -> Any:
    """Ask, and work meanwhile."""
    ASKING.append(asyncio.create_task(ctx.approval("Still?")))
    await ctx.step(work)
    return await ctx.receive("go")


def asks_a_person(op: Any, args: tuple[Any, ...]) -> bool:
    """Return whether a transaction is a commit that opens a question."""
    return op is commit and described(args[0]).startswith("wait ")


def test_a_question_given_up_while_it_is_being_written_is_closed_after_it(store: Store, moment: Moment) -> None:
    """Whatever the body does while the commit that asks is under way."""
    faulty, held = FaultyStore(store), Hold()
    faulty.fault = once(asks_a_person, held)
    ASKING.clear()
    ENOUGH[:] = [asyncio.Event()]

    async def check(lab: Lab) -> None:
        worker = await lab.worker()
        run = await lab.start(asks_beside)
        await held.reached.wait()
        ASKING[0].cancel()
        worker.loop.call_soon(worker.executors[run.number].go_on)  # as after a read of rows, that came back meanwhile
        thought = asyncio.Event()
        worker.loop.call_soon(thought.set)
        await thought.wait()
        held.released.set()
        ENOUGH[0].set()
        await lab.settle()
        assert await lab.state(run) == "waiting"
        assert await open_questions(lab) == []
        await lab.signal(run, "go", 5)
        assert await lab.result(run) == 5

    on(faulty, moment, app, check)
