"""What an agent may use: what is bought is counted once, and what runs out is asked about."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from tests.agent.scripted import agent_of, asked, forget, look
from tests.worker.labs import on
from torpor import App, Budget
from torpor.agent import prices
from torpor.client import Client
from torpor.errors import RunFailed, UsageError
from torpor.testing import Place, Script, call
from torpor.testing.script import USAGE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab, Run
    from torpor.testing.showing import Line


async def spent(lab: Lab, run: Run) -> tuple[Decimal, Decimal]:
    """Return what a run's own budget says: spent, and reserved."""
    own = next(one for one in await Client(lab.store).budgets(run.name) if one.of == run.name)
    return own.spent, own.reserved


async def unused(lab: Lab, run: Run) -> list[Decimal]:
    """Return what was reserved for attempts that have no end on record: paid, perhaps, and lost."""
    lines = await lab.journal(run)
    reserved = {
        (n, line.key.partition("@")[2]): line.value["micros"]
        for n, line in turns(lines)
        if line.key.startswith("reserve@")
    }
    ended = {(n, line.key.partition("@")[2]) for n, line in turns(lines) if line.key.startswith("model@")}
    return [Decimal(micros) / 1_000_000 for place, micros in reserved.items() if place not in ended]


def turns(lines: Sequence[Line]) -> Iterator[tuple[int, Line]]:
    """Yield the lines of a journal with the number of checkpoints before them."""
    turn = 0
    for line in lines:
        turn += line.kind == "checkpoint"
        yield turn, line


PRICED = "openai:gpt-5-mini"
CALLS = Script(call("look", n=1), "done", model=PRICED)
COST = Decimal(2 * prices.cost(USAGE, "gpt-5-mini", "openai")) / 1_000_000  # type: ignore[operator]  # it is known


def test_what_a_call_costs_is_counted_once(store: Store, moment: Moment) -> None:
    """Wherever the worker dies: spent is what the answers cost, and for each answer that died with it, its reservation."""
    app = App()
    paid = app.agent("paid", agent_of(CALLS, look), safety={"look": "repeatable"})

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(paid, "hello", before=lambda: forget(CALLS)):
            assert await crash.result() == "done", crash
            used, held = await spent(lab, crash.run)
            lost = await unused(lab, crash.run)
            assert held == 0, crash
            assert len(lost) <= 1, crash
            assert used == COST + sum(lost), crash
            assert len(asked(CALLS)) <= 2 + len(lost), crash

    on(store, moment, app, check)


def test_a_lost_answer_stays_paid(store: Store, moment: Moment) -> None:
    """The process dies with the answer in its hands: asked once more, and both calls are counted."""
    app = App()
    script = Script("done", model=PRICED)
    paid = app.agent("paid", agent_of(script))

    async def check(lab: Lab) -> None:
        lab.crash(Place.BEFORE, 2)  # the reservation is the first commit, the answer the second
        run = await lab.start(paid, "hello")
        assert await lab.result(run) == "done"
        assert asked(script) == [0, 0]
        used, held = await spent(lab, run)
        assert held == 0
        assert used > COST / 2
        assert [line.key for line in await lab.journal(run) if line.key.startswith("reserve@")] == [
            "reserve@1",
            "reserve@2",
        ]

    on(store, moment, app, check)


def test_a_budget_of_nothing_asks_before_the_first_call(store: Store, moment: Moment) -> None:
    """Also if nobody knows the model's price; the run goes on when a person raises it, and fails if they refuse."""
    script = Script("hello")
    app = App()
    poor = app.agent("poor", agent_of(script), budget=Budget(usd=0))

    async def check(lab: Lab) -> None:
        run = await lab.start(poor, "hi")
        await lab.settle()
        [wait] = await lab.waits(run)
        assert wait.kind == "budget"
        assert wait.title == (
            "used all of $0.00, and the price of script is unknown: "
            "any amount more, or once, lets its calls through, and counts none"
        )
        assert asked(script) == []
        await lab.kill()
        await lab.fund(run, more=1)
        assert await lab.result(run) == "hello"
        other = await lab.start(poor, "hi")
        await lab.settle()
        await lab.fund(other, no="not today")
        with pytest.raises(RunFailed, match="not today") as failed:
            await lab.result(other)
        assert failed.value.kind == "BudgetExceeded"

    on(store, moment, app, check)


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (Budget(model_calls=1), "1 of 1 model calls"),
        (Budget(tool_calls=1), "1 of 1 tool calls"),
        (Budget(tokens=100), "120 of 100 tokens"),
    ],
)
def test_a_count_that_runs_out_is_a_question(budget: Budget, words: str, store: Store, moment: Moment) -> None:
    """A person grants more, and the run goes on from where it was; or nothing, and it ends."""
    script = Script(call("look", n=1), "done")
    app = App()
    bounded = app.agent("bounded", agent_of(script, look), budget=budget)

    async def check(lab: Lab) -> None:
        run = await lab.start(bounded, "hi")
        await lab.settle()
        [wait] = await lab.waits(run)
        assert (wait.kind, words in wait.title) == ("question", True), wait
        await lab.kill()
        await lab.answer(wait, value=1000)
        assert await lab.result(run) == "done"
        other = await lab.start(bounded, "hi")
        await lab.settle()
        await lab.answer((await lab.waits(other))[0], value=0)
        with pytest.raises(RunFailed, match="granted no more"):
            await lab.result(other)

    on(store, moment, app, check)


def test_time_that_runs_out_is_a_question(store: Store, moment: Moment) -> None:
    """The time since the start counts whether the run slept or not."""
    script = Script(call("look", n=1), "done")
    app = App()
    bounded = app.agent(
        "bounded", agent_of(script, look), budget=Budget(wall=timedelta(hours=1)), approve={"look": True}
    )

    async def check(lab: Lab) -> None:
        run = await lab.start(bounded, "hi")
        await lab.settle()
        lab.advance(timedelta(hours=2))
        await lab.approve(run, by="ada")
        await lab.settle()
        [wait] = await lab.waits(run)
        assert "7,200 of 3,600 seconds since its start" in wait.title
        await lab.answer(wait, value=7200)
        assert await lab.result(run) == "done"

    on(store, moment, app, check)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("usd", -1),
        ("usd", "much"),
        ("tokens", -1),
        ("model_calls", 1.5),
        ("tool_calls", True),
        ("wall", -1),
        ("awake", "x"),
    ],
)
def test_what_is_no_budget_is_refused(name: str, value: Any) -> None:
    """With its name and value."""
    with pytest.raises(UsageError, match=name):
        Budget(**{name: value})


def test_a_rate_is_shared(store: Store, moment: Moment) -> None:
    """Two calls a minute for all runs on a model: the third run waits for its place."""
    scripts = [Script("hello"), Script("hello"), Script("hello")]
    app = App()
    for n, script in enumerate(scripts):
        app.agent(f"agent{n}", agent_of(script), calls_per_minute=2)

    async def check(lab: Lab) -> None:
        runs = []
        for n in range(3):
            runs.append(await lab.start(f"agent{n}", "hi"))
            await lab.settle()
        assert [wait.kind for wait in await lab.waits(runs[2])] == ["rate"]
        assert await lab.result(runs[2]) == "hello"

    on(store, moment, app, check)
