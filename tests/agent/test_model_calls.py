"""Model calls that go wrong: waited out or asked about, and nothing is said twice."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.fallback import FallbackModel

from tests.agent.provider.openai_stub import Cuts, Refuses, Says
from tests.agent.scripted import agent_of, asked, look, prompts
from tests.worker.labs import on
from torpor import App
from torpor.agent import asking
from torpor.client import Client
from torpor.errors import RunFailed
from torpor.testing import Script, call

if TYPE_CHECKING:
    from tests.agent.provider.openai_stub import Provider
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab, Run


@pytest.fixture(autouse=True)
def _nobody_pauses() -> None:
    """Let no test wait for what a provider said in another one."""
    asking.forget_pauses()


def refused(status: int, text: str = "no") -> ModelHTTPError:
    """Return a provider's refusal."""
    return ModelHTTPError(status, "gpt-5-mini", {"message": text})


async def said(lab: Lab, run: Run) -> str:
    """Return the text that whoever reads a run's stream ends with."""
    return await Client(lab.store).text(run.name)


@pytest.mark.parametrize("retries", [0, 2], ids=["asks once", "as usual"])
def test_trouble_is_waited_out(store: Store, moment: Moment, provider: Provider, retries: int) -> None:
    """An error, an answer that breaks off, a limit: each is waited out asleep, and what was streamed of it is taken back.

    However often the provider's client tries again by itself: usually twice, awake, and nothing is on record.
    """
    provider.say(
        Refuses(500),
        Cuts(Says("this will never end"), after=3),
        Refuses(429, retry_after="70"),
        Says("all is well"),
    )

    app, agent = App(), Agent()
    patient = app.agent("patient", agent)

    async def check(lab: Lab) -> None:
        async with provider.model(retries=retries) as agent.model:
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


def test_a_failure_is_logged_once(store: Store, moment: Moment, caplog: pytest.LogCaptureFixture) -> None:
    """Each wake replays the failures before; only what has just gone wrong is told, and of which run."""
    app = App()
    ill = app.agent("ill", agent_of(Script(refused(503), refused(503), refused(429), "hello")))

    async def check(lab: Lab) -> None:
        run = await lab.start(ill, "hi")
        assert await lab.result(run) == "hello"
        lines = [record.getMessage() for record in caplog.records if "asked again later" in record.getMessage()]
        assert ["answered 503" in line for line in lines] == [True, True, False]
        assert all(run.name in line for line in lines)

    with caplog.at_level(logging.INFO, "torpor"):
        on(store, moment, app, check)


@pytest.mark.parametrize("standing_in", [False, True], ids=["alone", "stands in"])
def test_an_author_may_let_the_client_try_again(
    store: Store, moment: Moment, provider: Provider, *, standing_in: bool
) -> None:
    """What the settings say counts; a list of models that stand in for each other goes on at the first refusal."""
    app, agent = App(), Agent(model_settings=None if standing_in else {"max_retries": 1})
    patient = app.agent("patient", agent)

    async def check(lab: Lab) -> None:
        async with provider.model(retries=2) as model:
            agent.model = FallbackModel(Script(refused(500), refused(500)), model) if standing_in else model
            provider.say(Refuses(503), Says("well"))
            run = await lab.start(patient, "hello")
            assert await lab.result(run) == "well "
            failures = [line for line in await lab.journal(run) if "said" in (line.value or ())]
            assert len(provider.requests) == 2
            assert len(failures) == standing_in

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


def test_a_long_refusal_is_cut_and_the_question_is_not(store: Store, moment: Moment) -> None:
    """Whatever a provider writes, what to do and what is asked stand in the list."""
    app = App()
    keyless = app.agent(
        "keyless", agent_of(Script(refused(401, "Incorrect API key provided. " + "Look there. " * 40), "x"))
    )

    async def check(lab: Lab) -> None:
        run = await lab.start(keyless, "hi")
        await lab.settle()
        [wait] = await lab.waits(run)
        said = "keyless cannot ask its model: ModelHTTPError: gpt-5-mini answered 401: Incorrect API key provided. Look"
        assert wait.title.startswith(said)
        end = (
            "... (the provider refused the key: see that the worker has a valid one for this model, then go on). Again?"
        )
        assert wait.title.endswith(end)
        assert "..." in wait.title

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
