"""What people, models and authors get wrong: each is a clear state or error, and once it is mended nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel
from pydantic_ai import ToolCallPart, ToolOutput

from tests.agent.scripted import SEEN, agent_of, asked, forget, kept_messages, prompts, results
from tests.worker.labs import on
from torpor import App, Conflict, RunFailed, UsageError
from torpor.client import Client
from torpor.testing import Script, call

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab, Run

WORLD: dict[str, Any] = {}
"""What is broken until somebody mends it."""


class Odd:
    """What nothing can store, and no model can be told."""


class Sum(BaseModel):
    """A result."""

    of: int


def add(a: int, b: int) -> int:
    """Add."""
    SEEN[f"add {a}"] += 1
    return a + b


def act(how: str) -> Any:
    """Act as the test says."""
    SEEN[f"act {how}"] += 1
    if how == "raises":
        raise ValueError("the far side is down")
    return Odd() if how == "odd" else f"{how}: \0 and \ud800"


def make_deps() -> str:
    """Make what the agent needs, if it can be made."""
    if WORLD.get("deps"):
        raise ConnectionError(WORLD["deps"])
    return "deps"


def policy(how: str) -> bool:
    """Say whether a person is asked."""
    if WORLD.get("policy"):
        raise LookupError(f"no policy for {how}")
    return False


def say(text: str) -> Any:
    """Return an output that cannot be stored, until that is mended."""
    return Odd() if WORLD.get("output") else text


app = App()
scripts: dict[str, Script] = {
    "empty": Script([], "", "here I am", model="empty"),
    "mute": Script(*[[]] * 9, model="mute"),
    "malformed": Script(ToolCallPart("add", '{"a": 1, "b"', "c1"), call("add", a=1, b=2), "three", model="malformed"),
    "stranger": Script(call("subtract", a=1), call("add", a=1, b=2), "three", model="stranger"),
    "wrong": Script(*[call("final_result", of="much")] * 3, call("final_result", of=3), model="wrong"),
    "raises": Script(call("act", how="raises"), "done", model="raises"),
    "odd": Script(call("act", how="odd"), "done", model="odd"),
    "nul": Script(["a\0b \ud800", call("act", how="\\u0000 \0")], "\0\ud800 it is \\u0000", model="nul"),
    "deps": Script("done", model="deps"),
    "policy": Script(call("act", how="works"), "done", model="policy"),
    "output": Script(call("final_result", text="done"), model="output"),
    "talks": Script("hello", "and you?", "well", model="talks"),
}
app.agent("empty", agent_of(scripts["empty"]))
app.agent("mute", agent_of(scripts["mute"]))
app.agent("malformed", agent_of(scripts["malformed"], add))
app.agent("stranger", agent_of(scripts["stranger"], add))
app.agent("wrong", agent_of(scripts["wrong"], output_type=Sum))
for safety in ("once", "keyed"):
    app.agent(f"raises-{safety}", agent_of(scripts["raises"], act), safety={"act": safety})
app.agent("odd", agent_of(scripts["odd"], act), safety={"act": "keyed"})
app.agent("nul", agent_of(scripts["nul"], act), safety={"act": "keyed"})
app.agent("deps", agent_of(scripts["deps"], deps_type=str), deps=make_deps)
app.agent("policy", agent_of(scripts["policy"], act), approve={"act": policy}, safety={"act": "keyed"})
app.agent("output", agent_of(scripts["output"], output_type=ToolOutput(say, name="final_result")))
app.agent("talks", agent_of(scripts["talks"]), conversation=True)


def fresh(*broken: str) -> None:
    """Begin a test: nothing was asked, and so much is broken."""
    forget(*scripts.values())
    WORLD.clear()
    WORLD.update({name: f"no {name} yet" for name in broken})


async def fails(lab: Lab, run: Run) -> RunFailed:
    """Return how a run failed."""
    with pytest.raises(RunFailed) as failed:
        await lab.result(run)
    assert "torpor retry RUN" not in failed.value.hint, "it knows which"
    return failed.value


async def retried(lab: Lab, run: Run) -> Any:
    """Mend what is broken, retry and return the result."""
    WORLD.clear()
    await Client(lab.store).retry(run.name, by="ada")
    return await lab.result(run)


@pytest.mark.parametrize(
    ("name", "result", "turns"), [("empty", "here I am", 3), ("malformed", "three", 3), ("stranger", "three", 3)]
)
def test_a_model_that_slips_is_asked_again(store: Store, moment: Moment, name: str, result: str, turns: int) -> None:
    """An answer without anything, arguments that are no JSON, a tool that there is not: each is paired, and it goes on."""
    fresh()

    async def check(lab: Lab) -> None:
        run = await lab.start(name, "go")
        failed = 0
        while await settled(lab, run) == "failed":
            failed += 1
            await Client(lab.store).retry(run.name, by="ada")
        assert failed <= 1
        assert await lab.result(run) == result
        assert sorted(set(asked(scripts[name]))) == list(range(turns))
        assert sum(SEEN.values()) == (0 if name == "empty" else 1)

    on(store, moment, app, check)


async def settled(lab: Lab, run: Run) -> str:
    """Return a run's state once it can go no further."""
    await lab.settle()
    return await lab.state(run)


@pytest.mark.parametrize(("name", "says"), [("mute", "retries"), ("wrong", "retries")])
def test_a_model_that_goes_on_slipping_fails_the_run(store: Store, moment: Moment, name: str, says: str) -> None:
    """It is said how often it was asked and what to do; a retry goes on from there, with what was said before."""
    fresh()

    async def check(lab: Lab) -> None:
        run = await lab.start(name, "go")
        failed = await fails(lab, run)
        assert failed.kind == "UnexpectedModelBehavior"
        assert says in failed.detail
        assert "torpor retry" in failed.hint
        assert len(asked(scripts[name])) == 2
        if name == "wrong":
            while await settled(lab, run) == "failed":
                await Client(lab.store).retry(run.name, by="ada")
            assert await lab.result(run) == Sum(of=3)
            assert asked(scripts[name]) == sorted(set(asked(scripts[name]))), "no answer was asked for twice"

    on(store, moment, app, check)


def test_a_tool_that_raises_is_a_result_or_a_question(store: Store, moment: Moment) -> None:
    """One that may be called again failed, and the model is told. Of a `once` one a person says what became of it."""
    fresh()

    async def check(lab: Lab) -> None:
        assert await lab.result(await lab.start("raises-keyed", "go")) == "done"
        told = ("act", "act failed: ValueError: the far side is down", "failed")
        assert results(scripts["raises"]) == [told]
        for answer, result in (
            ({"happened": "it did"}, ("act", "it did", "success")),
            ({"fail": "it did not"}, ("act", "act failed: TorporError: a person said: it did not", "failed")),
        ):
            fresh()
            run = await lab.start("raises-once", "go")
            await lab.settle()
            (wait,) = await lab.waits(run)
            assert (wait.kind, wait.title) == ("attention", "did act@0 happen?")
            assert "ValueError: the far side is down" in wait.show["why"]
            await lab.answer(wait, **answer)
            assert await lab.result(run) == "done"
            name, content, outcome = results(scripts["raises"])[0]
            assert (name, outcome) == (result[0], result[2])
            assert "it did" in content
            assert SEEN == {"act raises": 1}

    on(store, moment, app, check)


def test_what_cannot_be_stored_is_said_to_the_model(store: Store, moment: Moment) -> None:
    """The tool acted, once; what it gave back is nothing that anybody could be told."""
    fresh()

    async def check(lab: Lab) -> None:
        run = await lab.start("odd", "go")
        assert await lab.result(run) == "done"
        ((name, content, outcome),) = results(scripts["odd"])
        assert (name, outcome) == ("act", "failed")
        assert content.startswith("act was called, and what it gave back cannot be kept: its result: ")
        assert "Odd" in content
        assert SEEN == {"act odd": 1}

    on(store, moment, app, check)


def test_an_output_that_cannot_be_stored_fails_the_run(store: Store, moment: Moment) -> None:
    """It says which, and after it was mended nothing is asked again."""
    fresh("output")

    async def check(lab: Lab) -> None:
        run = await lab.start("output", "go")
        failed = await fails(lab, run)
        assert failed.kind == "UnstorableValue"
        assert "the result" in failed.detail
        assert "Odd" in failed.detail
        assert failed.hint
        assert await retried(lab, run) == "done"
        assert asked(scripts["output"]) == [0]

    on(store, moment, app, check)


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("deps", "ConnectionError", "no deps yet"),
        ("policy", "UsageError", "the approve function of act raised LookupError: no policy for works"),
    ],
)
def test_what_the_author_mends_goes_on(store: Store, moment: Moment, name: str, kind: str, says: str) -> None:
    """Dependencies that cannot be made, a policy that raises: the run fails, nothing has acted, and a retry ends it."""
    fresh(name)

    async def check(lab: Lab) -> None:
        run = await lab.start(name, "go")
        failed = await fails(lab, run)
        assert (failed.kind, failed.detail) == (kind, says)
        assert "torpor retry" in failed.hint
        assert not SEEN
        assert await retried(lab, run) == "done"
        assert asked(scripts[name]) == ([0, 1] if name == "policy" else [0])

    on(store, moment, app, check)


async def forgotten(how: str) -> bool:
    """Say so, but only to whoever awaits it."""
    return how == "works"


@pytest.mark.parametrize("said", [None, "no", 0, forgotten])
def test_a_policy_that_says_neither_is_no_consent(store: Store, moment: Moment, said: Any) -> None:
    """A forgotten `return`, a text, a coroutine: nothing has acted, and the run says so; mended, a person is asked."""
    fresh("said")
    unclear = App()
    rule: dict[str, Any] = {"act": lambda how: (said(how) if said is forgotten else said) if WORLD else True}
    unclear.agent("policy", agent_of(scripts["policy"], act), approve=rule, safety={"act": "keyed"})

    async def check(lab: Lab) -> None:
        run = await lab.start("policy", "go")
        failed = await fails(lab, run)
        assert failed.kind == "UsageError"
        assert "the approve function of act returned" in failed.detail
        assert "neither True nor False: nothing was called" in failed.detail
        assert "return euros > 50" in failed.hint
        assert not SEEN
        WORLD.clear()
        await Client(lab.store).retry(run.name, by="ada")
        await lab.settle()
        assert not SEEN
        await lab.approve(run, by="ada")
        assert await lab.result(run) == "done"
        assert SEEN == {"act works": 1}

    on(store, moment, unclear, check)


@pytest.mark.parametrize("prompt", [5, {"order": 17}, [], [1, 2], b"bytes", True])
def test_a_prompt_of_a_wrong_kind_is_refused(store: Store, moment: Moment, prompt: Any) -> None:
    """The run says what it was given and what it takes; no model is asked."""
    fresh()

    async def check(lab: Lab) -> None:
        failed = await fails(lab, await lab.start("talks", prompt))
        assert failed.kind == "UsageError"
        assert "the input of talks is no prompt" in failed.detail
        assert "torpor start" in failed.hint
        assert asked(scripts["talks"]) == []

    on(store, moment, app, check)


def test_a_message_of_a_wrong_kind_is_told_as_json(store: Store, moment: Moment) -> None:
    """Whoever sent it is gone, and the run lives on."""
    fresh()

    async def check(lab: Lab) -> None:
        run = await lab.start("talks", ["hi", "there"])
        await lab.settle()
        await lab.signal(run, "message", {"order": 17})
        await lab.settle()
        await lab.signal(run, "message")
        await lab.settle()
        assert prompts(scripts["talks"]) == ['["hi", "there"]', '{"order":17}', "(an empty message)"]
        assert await lab.state(run) == "waiting"

    on(store, moment, app, check)


def test_letters_that_no_database_likes(store: Store, moment: Moment) -> None:
    """C15: U+0000 and halves of a surrogate pair in prompts, arguments, results, texts: kept, or one stated replacement."""
    fresh()

    async def check(lab: Lab) -> None:
        run = await lab.start("nul", "\0 prompt \ud800 and \\u0000")
        await lab.signal(run, "message", "\0 message \udc00")
        result = await lab.result(run)
        assert result.replace("\ud800", "\ufffd") == "\0\ufffd it is \\u0000"
        kept = kept_messages(lab.store, run.number)
        texts = [str(getattr(part, "content", "")) for message in kept for part in message.parts]
        assert texts[0].startswith("\0 prompt \ufffd and \\u0000")
        assert "\0 message \ufffd" in texts[0]
        assert texts[1] == "a\0b \ufffd"
        ((_, content, outcome),) = results(scripts["nul"])
        assert outcome == "success"
        assert content.startswith("\\u0000 \0: \0 and ")
        spoken = [part.body async for part in Client(lab.store).stream(run.name, follow=False) if part.kind == "text"]
        assert "a\0b" in "".join(spoken)
        shown = await Client(lab.store).show(run.name)
        assert shown.result.startswith("\0")

    on(store, moment, app, check)


def test_an_answer_to_a_closed_approval_is_refused(store: Store, moment: Moment) -> None:
    """Whoever comes late hears who was first; a run that was cancelled says so."""
    fresh()
    asks = App()
    asks.agent("asks", agent_of(scripts["policy"], act), approve={"act": True}, safety={"act": "keyed"})

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run = await lab.start("asks", "go")
        await lab.settle()
        (wait,) = await lab.waits(run)
        with pytest.raises(UsageError):
            await client.answer(wait.name, by="ada", happened="no")
        await lab.approve(wait, by="ada")
        with pytest.raises(Conflict, match="ada approved"):
            await client.deny(wait.name, by="ben")
        assert await lab.result(run) == "done"
        cancelled = await lab.start("asks", "go")
        await lab.settle()
        (wait,) = await lab.waits(cancelled)
        await lab.cancel(cancelled)
        await lab.settle()
        with pytest.raises(Conflict, match="the run is cancelled"):
            await client.approve(wait.name, by="ada")
        assert SEEN == {"act works": 1}

    on(store, moment, asks, check)
