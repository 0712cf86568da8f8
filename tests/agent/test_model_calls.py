"""Model calls: what goes wrong is waited out or asked about, what is bought is counted once, and nothing is said twice."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import UserPromptPart
from pydantic_ai.models.fallback import FallbackModel

from tests.agent.provider.openai_stub import Cuts, Refuses, Says
from tests.agent.scripted import agent_of, asked, forget, prompts
from tests.worker.labs import on
from torpor import App, Budget
from torpor.agent import asking, prices
from torpor.client import Client
from torpor.errors import RunFailed, UsageError
from torpor.testing import Place, Script, call
from torpor.testing.script import USAGE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic_ai.messages import ModelMessage

    from tests.agent.provider.openai_stub import Provider
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab, Run
    from torpor.testing.showing import Line


@pytest.fixture(autouse=True)
def _nobody_pauses() -> None:
    """Let no test wait for what a provider said in another one."""
    asking.forget_pauses()


def refused(status: int, text: str = "no") -> ModelHTTPError:
    """Return a provider's refusal."""
    return ModelHTTPError(status, "gpt-5-mini", {"message": text})


def look(n: int) -> str:
    """Look."""
    return f"seen {n}"


async def said(lab: Lab, run: Run) -> str:
    """Return the text that whoever reads a run's stream ends with."""
    return await Client(lab.store).text(run.name)


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


# what the provider says ------------------------------------------------------------------------------------------------
def test_trouble_is_waited_out(store: Store, moment: Moment, provider: Provider) -> None:
    """An error, an answer that breaks off, a limit: each is waited out asleep, and what was streamed of it is taken back."""
    provider.say(
        Refuses(500),
        Cuts(Says("this will never end"), after=3),
        Refuses(429, retry_after="70"),
        Says("all is well"),
    )

    app, agent = App(), Agent()
    patient = app.agent("patient", agent)

    async def check(lab: Lab) -> None:
        async with provider.model() as agent.model:
            run = await lab.start(patient, "hello")
            began = lab.now
            assert await lab.result(run) == "all is well "
            assert lab.now - began >= timedelta(seconds=70)
            assert len(provider.requests) == 4
            assert await said(lab, run) == "all is well "
            failures = [line.value for line in await lab.journal(run) if "said" in (line.value or ())]
            assert [value["kind"] for value in failures] == ["ModelTrouble"] * 3
            assert [value["said"]["verdict"] for value in failures] == ["Retry", "Retry", "Wait"]

    on(store, moment, app, check)


def test_nobody_asks_a_provider_that_said_not_now(store: Store, moment: Moment) -> None:
    """What one run was told holds for every run on the same model in this process."""
    limited = Script(ModelHTTPError(429, "script", {"message": "slowly"}), "first")
    other = Script("second")
    app = App()
    one, two = app.agent("one", Agent(limited)), app.agent("two", Agent(other))

    async def check(lab: Lab) -> None:
        first = await lab.start(one, "hello")
        await lab.settle()
        second = await lab.start(two, "hello")
        await lab.settle()
        assert asked(other) == []
        assert [wait.kind for wait in await lab.waits(second)] == ["timer"]
        asking.forget_pauses()
        assert (await lab.result(first), await lab.result(second)) == ("first", "second")

    on(store, moment, app, check)


def test_what_only_a_person_mends_is_asked(store: Store, moment: Moment) -> None:
    """A key that is refused: the run waits, goes on when told to, fails when told to, and then a retry asks anew."""
    script = Script(refused(401), refused(401), refused(401), "hello")
    app = App()
    keyless = app.agent("keyless", agent_of(script))

    async def check(lab: Lab) -> None:
        run = await lab.start(keyless, "hi")
        await lab.settle()
        [wait] = await lab.waits(run)
        assert wait.kind == "question"
        assert "the provider refused the key" in wait.title
        await lab.answer(wait, value="again")
        await lab.settle()
        [wait] = await lab.waits(run)
        await lab.kill()
        await lab.answer(wait, value="fail")
        with pytest.raises(RunFailed, match="401") as failed:
            await lab.result(run)
        assert failed.value.detail.startswith("model failed: ModelTrouble: ModelHTTPError")
        await Client(lab.store).retry(run.name, by="ada")
        await lab.settle()
        [wait] = await lab.waits(run)
        await lab.answer(wait, value="again")
        assert await lab.result(run) == "hello"
        assert asked(script) == [0, 0, 0, 0]

    on(store, moment, app, check)


def test_a_model_that_stays_ill_is_a_question(store: Store, moment: Moment) -> None:
    """Pauses grow; after so many of them a person says whether to go on."""
    script = Script(*(refused(503) for _ in range(asking.MOST_RETRIES + 1)), "at last")
    app = App()
    ill = app.agent("ill", agent_of(script))

    async def check(lab: Lab) -> None:
        run = await lab.start(ill, "hi")
        await lab.pass_time(timedelta(hours=1))
        [wait] = await lab.waits(run)
        assert wait.kind == "question"
        await lab.answer(wait, value="again")
        assert await lab.result(run) == "at last"

    on(store, moment, app, check)


def test_another_model_answers_for_one_that_is_ill(store: Store, moment: Moment) -> None:
    """A fallback list is pydantic-ai's; if all of it is ill the shortest pause is waited out."""
    first = Script(refused(500), refused(500), "one", model="openai:gpt-5-mini")
    second = Script(refused(503), "two", model="anthropic:claude-haiku-4-5")
    app = App()
    either = app.agent("either", Agent(FallbackModel(first, second)))

    async def check(lab: Lab) -> None:
        assert await lab.result(await lab.start(either, "hi")) == "two"

    on(store, moment, app, check)


def test_what_is_too_long_is_cut(store: Store, moment: Moment) -> None:
    """A provider that says the request does not fit gets half of it; pinned is what was said first and last."""
    full = ModelHTTPError(
        400, "gpt-5-mini", {"message": "maximum context length is 100 tokens", "code": "context_length_exceeded"}
    )
    turns = [call("look", n=n) for n in range(60)]
    script = Script(*turns, full, "short")
    app = App()
    long = app.agent("long", agent_of(script, look), safety={"look": "repeatable"})

    async def check(lab: Lab) -> None:
        assert await lab.result(await lab.start(long, "remember me")) == "short"
        whole, cut = script.requests[-2:]
        assert len(cut.messages) < len(whole.messages)
        assert prompts(script)[0] == "remember me"

    on(store, moment, app, check)


# money -----------------------------------------------------------------------------------------------------------------
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
        assert [wait.kind for wait in await lab.waits(run)] == ["budget"]
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


# loops -----------------------------------------------------------------------------------------------------------------
def test_a_loop_is_a_question(store: Store, moment: Moment) -> None:
    """The same calls with the same answers: a person looks before the model is asked again; the count outlives its worker."""
    script = Script(*(call("look", n=1) for _ in range(9)), "done")
    app = App()
    stuck = app.agent("stuck", agent_of(script, look), watchdog=5)

    async def check(lab: Lab) -> None:
        lab.crash(Place.AFTER, 7)
        run = await lab.start(stuck, "hi")
        await lab.settle()
        [wait] = await lab.waits(run)
        assert wait.kind == "question"
        assert "called 5 times with equal arguments" in wait.title
        assert asked(script) == [0, 1, 2, 3, 4]
        await lab.answer(wait, value="go on")
        assert await lab.result(run) == "done"
        other = await lab.start(stuck, "hi")
        await lab.settle()
        await lab.answer((await lab.waits(other))[0], value="stop")
        with pytest.raises(RunFailed) as failed:
            await lab.result(other)
        assert failed.value.kind == "Stopped"

    on(store, moment, app, check)


def test_a_window_is_the_same_wherever_it_is_built(store: Store, moment: Moment) -> None:
    """A worker that has the whole conversation and one that reads its end send the same, the first prompt in it."""
    turns = 150
    script = Script(*(call("look", n=n) for n in range(turns)), "done")
    app = App()
    long = app.agent("long", agent_of(script, look), safety={"look": "repeatable"}, window=1_200)

    async def check(lab: Lab) -> None:
        sent: list[list[list[str]]] = []
        for kill in (False, True):
            forget(script)
            run = await lab.start(long, "remember me")
            if kill:
                lab.crash(Place.AFTER, 2 * turns - 11)
            assert await lab.result(run) == "done"
            sent.append(
                [[repr(part) for message in one.messages for part in texts(message)] for one in script.requests]
            )
            assert all("remember me" in prompts_of(one.messages) for one in script.requests)
            assert max(len(one.messages) for one in script.requests) < 130
        assert sent[0] == sent[1]

    on(store, moment, app, check)


def texts(message: ModelMessage) -> list[object]:
    """Return what a message says, without what differs from run to run."""
    return [getattr(part, "content", None) or getattr(part, "args", None) for part in message.parts]


def prompts_of(messages: list[ModelMessage]) -> list[object]:
    """Return what people said in these messages."""
    parts = [part for message in messages for part in message.parts]
    return [part.content for part in parts if isinstance(part, UserPromptPart)]
