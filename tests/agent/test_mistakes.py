"""What authors get wrong about an agent when they declare it: said at once, or before anything has acted."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pydantic_ai import Agent, FunctionToolset, RunContext

from tests.agent.provider.openai_stub import Refuses, Says
from tests.agent.scripted import SEEN, agent_of, asked, forget
from tests.worker.labs import on
from torpor import App, Budget, RunFailed, UsageError
from torpor.agent.declared import AGENT
from torpor.agent.watchdog import Watchdog
from torpor.agent.window import Window
from torpor.client import Client
from torpor.testing import Script, call

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.agent.provider.openai_stub import Provider
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab


def act(how: str) -> str:
    """Act."""
    SEEN[f"act {how}"] += 1
    return how


SCRIPT = Script(call("act", how="works"), "done")


def test_what_is_declared_of_a_tool_that_is_not_there(store: Store, moment: Moment) -> None:
    """One wrong letter in `approve`, and nobody would be asked: the run says so before any model is, and a worker does."""
    forget(SCRIPT)
    typo = App()
    typo.agent("typo", agent_of(SCRIPT, act), approve={"akt": True})
    assert typo.flows["typo"].warns is not None
    assert "tools that it does not have: akt" in typo.flows["typo"].warns()

    async def check(lab: Lab) -> None:
        with pytest.raises(RunFailed) as failed:
            await lab.result(await lab.start("typo", "go"))
        assert failed.value.kind == "UsageError"
        assert failed.value.detail == "typo has no tool akt, and something is declared of it"
        assert failed.value.hint.startswith("its tools: act;")
        assert "torpor retry RUN" not in failed.value.hint
        assert asked(SCRIPT) == []

    on(store, moment, typo, check)


def test_what_app_agent_refuses() -> None:
    """Each with what to write instead."""
    agent = agent_of(SCRIPT, act)
    names = App()
    names.agent("one", agent)
    with pytest.raises(UsageError, match='two programs are named "one"'):
        names.agent("one", agent)
    for given in (
        {"approve": {"act": "yes"}},
        {"approve": {"act": asyncio.sleep}},
        {"approve": {"act": None}},
        {"approve": True},
        {"approve": "act"},
        {"safety": "once"},
        {"safety": {"act": "sometimes"}},
        {"safety": {"act": "transactional"}},
        {"safety": {"act": True}},
    ):
        with pytest.raises(UsageError) as refused:
            App().agent("one", agent, **given)
        assert refused.value.hint
    nonsense: tuple[dict[str, Any], ...] = (
        *({"calls_per_minute": value} for value in (0, -1, 1.5, True, "60", float("nan"), 10**7)),
        *({"budget": value} for value in ("much", "", "-1", "NaN", 0.5, True, {"usd": 1}, float("nan"))),
        *({"window": value} for value in ("big", 0, -1, 1.5, True, float("nan"))),
        *({"watchdog": value} for value in ("big", 0, 1, 2.5, True, float("nan"))),
        *({"planner": value} for value in ("plan", "", 5)),
        *({"planner": lambda goal: [goal], "workers": value} for value in (5, [1], [None], [""])),
        *({switch: "no"} for switch in ("conversation", "trust_hints", "replan", "reentry")),
        *({what: {tool: True}} for what in ("approve", "safety") for tool in (5, "", None)),
    )
    for wrong in nonsense:
        ((what, value),) = list(wrong.items())[-1:]
        with pytest.raises(UsageError, match=None if what == "workers" else what) as refused:
            App().agent("one", agent, **wrong)
        assert refused.value.hint, value
    with pytest.raises(UsageError, match="approve of tool act is 'yes'"):
        App().tool(approve="yes")(act)  # type: ignore[call-overload]  # that is the point
    for thing in ("agent", Agent, None, lambda: agent):
        with pytest.raises(UsageError, match=r"takes a pydantic_ai\.Agent"):
            App().agent("one", thing)  # type: ignore[arg-type]  # that is the point


def test_what_means_something_is_taken() -> None:
    """An amount of dollars by itself is a budget; a planner may be named once it is there."""
    app = App()
    budgets: list[Any] = ["0.50", Decimal("0.50"), 1, 0, Budget(usd=2)]
    for n, budget in enumerate(budgets):
        program = app.agent(f"agent{n}", agent_of(SCRIPT, act), budget=budget)
        assert Decimal(getattr(program, AGENT).budget.usd) == (Decimal("0.50"), Decimal("0.50"), 1, 0, 2)[n]
    follows = app.agent("follows", agent_of(SCRIPT, act), planner="agent0")
    assert getattr(follows, AGENT).planning.program == "agent0"


def test_what_else_takes_no_nonsense() -> None:
    """`app.tool`, `app.delegate`, `app.nested`, a window and a watchdog by themselves, each with a hint."""
    app = App()
    program = app.agent("other", agent_of(SCRIPT, act))
    wrong: list[Callable[[], Any]] = [
        lambda: app.tool("act"),  # type: ignore[call-overload]  # that is the point, here and below
        *(lambda timeout=timeout: app.tool(timeout=timeout)(act) for timeout in (0, -1, float("nan"), "soon", True)),
        *(lambda name=name: app.delegate(program, name=name) for name in (5, None, "two words", "a" * 65)),
        lambda: app.delegate(program, description=5),  # type: ignore[arg-type]
        lambda: app.delegate(program, approve="yes"),  # type: ignore[arg-type]
        *(lambda other=other: app.delegate(other) for other in ("", 5, None, act)),
        lambda: app.nested(safety="once"),  # type: ignore[arg-type]
        lambda: app.nested(safety={"act": "sometimes"}),
        lambda: app.nested(approve={"act": None}),  # type: ignore[dict-item]
        *(lambda size=size: Window(size) for size in ("big", 1.5, float("nan"), True, 0)),
        lambda: Window(1000, 1.5),  # type: ignore[arg-type]
        *(lambda limit=limit: Watchdog(limit) for limit in ("big", 2.5, float("nan"), True, 1)),
        *(lambda wall=wall: Budget(wall=wall) for wall in (float("nan"), float("inf"), True)),
        *(lambda usd=usd: Budget(usd=usd) for usd in (0.5, True, "", "Infinity")),
        *(lambda name=name: app.agent(name, agent_of(SCRIPT, act)) for name in ("", None, 5, "two words")),
    ]
    for n, make in enumerate(wrong):
        with pytest.raises(UsageError) as refused:
            make()
        assert refused.value.hint, n


careful = App()


@careful.tool(safety="keyed", approve=True)
def guarded(what: str) -> str:
    """Act on consent."""
    SEEN[f"guarded {what}"] += 1
    return f"did {what}"


late = Agent(Script(call("guarded", what="late"), "done", model="late"))
careful.agent("late", late)
late.tool_plain(guarded)
wrapped = FunctionToolset([guarded]).prefixed("my")
careful.agent("wrapped", Agent(Script(call("my_guarded", what="wrapped"), "done"), toolsets=[wrapped]))
made = Agent(Script(call("guarded", what="made"), "done"))


@made.toolset
def made_now(_ctx: RunContext[Any]) -> FunctionToolset[Any]:
    """Make a toolset when it is asked for."""
    return FunctionToolset([guarded])


careful.agent("made", made, approve={"other": True})


@pytest.mark.parametrize("name", ["late", "wrapped", "made"])
def test_what_a_tool_declares_holds_wherever_it_is(store: Store, moment: Moment, name: str) -> None:
    """Given to the agent after `app.agent`, in a toolset that renames it, or by one that is made on the way."""
    SEEN.clear()

    async def check(lab: Lab) -> None:
        run = await lab.start(name, "go")
        await lab.settle()
        assert not SEEN
        await lab.approve(run, by="ada")
        assert await lab.result(run) == "done"
        assert {f"guarded {name}": 1} == SEEN

    on(store, moment, careful, check)


def test_a_model_that_the_provider_does_not_know(store: Store, moment: Moment, provider: Provider) -> None:
    """A person is asked, with what the provider said; once that is mended the run goes on, and nothing was lost."""
    provider.say(Refuses(404, "The model `gpt-5-mini` does not exist"), Says("hello"))
    known, agent = App(), Agent()
    known.agent("asks", agent)

    async def check(lab: Lab) -> None:
        async with provider.model() as agent.model:
            run = await lab.start("asks", "hi")
            await lab.settle()
            (wait,) = await lab.waits(run)
            assert wait.for_person
            assert "asks cannot ask its model" in wait.title
            assert "does not exist" in wait.title
            await lab.answer(wait, value="again")
            assert (await lab.result(run)).strip() == "hello"

    on(store, moment, known, check)


def test_a_key_that_is_missing(
    store: Store, moment: Moment, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run says which, and a retry goes on once the worker has it. A name of no provider is as clear."""
    provider.say(Says("hello"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    keyless = App()
    keyless.agent("keyless", Agent("openai-chat:gpt-5-mini", defer_model_check=True))
    keyless.agent("nobody", Agent("nobody:knows-it", defer_model_check=True))

    async def check(lab: Lab) -> None:
        run = await lab.start("keyless", "hi")
        with pytest.raises(RunFailed, match="OPENAI_API_KEY") as failed:
            await lab.result(run)
        assert "torpor retry" in failed.value.hint
        with pytest.raises(RunFailed, match="nobody") as failed:
            await lab.result(await lab.start("nobody", "hi"))
        assert "torpor retry" in failed.value.hint
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
        await Client(lab.store).retry(run.name, by="ada")
        assert (await lab.result(run)).strip() == "hello"

    on(store, moment, keyless, check)
