"""Spans by the conventions for generative AI: of what was really asked, below torpor's own, with nothing that was said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import ModelRetry
from pydantic_ai.exceptions import ToolFailed

from tests.agent.scripted import agent_of
from tests.worker.labs import on
from torpor import App
from torpor.agent.spans import CONTENT
from torpor.testing import Script, call

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from tests.stores import Moment
    from torpor.agent.tools import ToolContext
    from torpor.store.protocol import Store
    from torpor.testing import Lab

SECRET = "a-long-secret-of-the-bank"  # noqa: S105 - not one
PROMPT = "please pay what is due"

app = App()


@app.tool(safety="repeatable")
def look_up(ctx: ToolContext, order: str) -> str:
    """Say a secret, or what is wrong."""
    if order == "odd":
        raise ModelRetry("an even one")
    if order == "none":
        raise ToolFailed("there is none")
    return f"{order} {ctx.secret('bank')}"


@app.tool(safety="repeatable", approve=True)
def pay(order: str) -> str:
    """Give money back."""
    return f"paid {order}"


SCRIPT = Script(
    [call("look_up", order="7"), call("look_up", order="odd"), call("look_up", order="none")],
    call("pay", order="7"),
    "Done.",
    model="openai:gpt-5-mini",
)
desk = app.agent("desk", agent_of(SCRIPT, look_up, pay))


@pytest.fixture
def kept() -> InMemorySpanExporter:
    """Return where spans are kept."""
    return InMemorySpanExporter()


@pytest.fixture
def provider(kept: InMemorySpanExporter) -> TracerProvider:
    """Return what keeps them."""
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(kept))
    return made


def named(kept: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    """Return the spans with a name."""
    return [span for span in kept.get_finished_spans() if span.name == name]


def said(span: ReadableSpan) -> dict[str, Any]:
    """Return a span's attributes."""
    return dict(span.attributes or {})


def above(kept: InMemorySpanExporter, span: ReadableSpan) -> str:
    """Return the name of the span that another one stands in."""
    assert span.parent is not None
    return next(
        one.name
        for one in kept.get_finished_spans()
        if one.context is not None and one.context.span_id == span.parent.span_id
    )


async def paid(lab: Lab) -> str:
    """Run the desk through a sleep for a person, and return the run."""
    run = await lab.start(desk, PROMPT)
    await lab.settle()
    await lab.approve(run, by="ada")
    assert await lab.result(run) == "Done."
    return str(run)


def test_each_real_request_has_a_span(
    store: Store, moment: Moment, kept: InMemorySpanExporter, provider: TracerProvider
) -> None:
    """Three models calls and four tool calls in two stretches: no answer of the journal has one, and nothing said is told."""
    SCRIPT.requests.clear()

    async def check(lab: Lab) -> None:
        run = await paid(lab)
        stretches = named(kept, "invoke_agent desk")
        assert len(stretches) >= 2
        who = {"gen_ai.agent.name": "desk", "gen_ai.conversation.id": run}
        for stretch in stretches:
            assert said(stretch).items() >= {**who, "gen_ai.operation.name": "invoke_agent", "torpor.run": run}.items()
        chats = named(kept, "chat gpt-5-mini")
        assert len(chats) == len(SCRIPT.requests) == 3
        for chat in chats:
            asked = {
                **who,
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "openai",
                "gen_ai.request.model": "gpt-5-mini",
                "gen_ai.response.model": "gpt-5-mini",
                "gen_ai.usage.input_tokens": 100,
                "gen_ai.usage.output_tokens": 20,
            }
            assert said(chat).items() >= asked.items()
            assert above(kept, chat) == "torpor.step model"
            assert chat.kind.name == "CLIENT"
        looked = named(kept, "execute_tool look_up")
        assert len(looked) == 3
        (gave,) = named(kept, "execute_tool pay")
        assert (above(kept, looked[0]), above(kept, gave)) == ("torpor.step look_up", "torpor.step pay")
        told = {
            **who,
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "pay",
            "gen_ai.tool.call.id": "call_1_0",
        }
        assert said(gave).items() >= {**told, "gen_ai.tool.type": "function"}.items()
        errors = {str(said(span).get("error.type")): span.status.status_code.name for span in looked}
        assert errors == {"None": "UNSET", "ModelRetry": "ERROR", "ToolFailed": "ERROR"}
        everything = "".join(span.to_json() for span in kept.get_finished_spans())
        for silent in (PROMPT, "Done.", "paid 7", SECRET, "an even one"):
            assert silent not in everything

    on(store, moment, app, check, tracer_provider=provider, secrets={"bank": SECRET})


def test_what_was_said_is_told_where_it_is_wanted(
    store: Store,
    moment: Moment,
    kept: InMemorySpanExporter,
    provider: TracerProvider,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the conventions' own variable: prompts, answers, arguments and results, secrets struck (G15)."""
    monkeypatch.setenv(CONTENT, "true")

    async def check(lab: Lab) -> None:
        await paid(lab)
        (gave,) = named(kept, "execute_tool pay")
        assert json.loads(said(gave)["gen_ai.tool.call.arguments"]) == {"order": "7"}
        assert json.loads(said(gave)["gen_ai.tool.call.result"]) == "paid 7"
        results = [said(span)["gen_ai.tool.call.result"] for span in named(kept, "execute_tool look_up")]
        assert sorted(results) == ['"7 [secret bank]"', '"an even one"', '"there is none"']
        last = said(named(kept, "chat gpt-5-mini")[-1])
        assert PROMPT in last["gen_ai.input.messages"]
        assert "Done." in last["gen_ai.output.messages"]
        assert [message["role"] for message in json.loads(last["gen_ai.input.messages"])][-1] == "tool"
        assert SECRET not in "".join(span.to_json() for span in kept.get_finished_spans())

    on(store, moment, app, check, tracer_provider=provider, secrets={"bank": SECRET})


def test_a_request_that_fails_says_so(
    store: Store, moment: Moment, kept: InMemorySpanExporter, provider: TracerProvider
) -> None:
    """It has a span of its own, and so has the one that is made after it."""
    cut = App()
    desk = cut.agent("desk", agent_of(Script(ConnectionError("the line is cut"), "Done.")))

    async def check(lab: Lab) -> None:
        run = await lab.start(desk, PROMPT)
        await lab.pass_time(600)
        assert await lab.result(run) == "Done."
        first, second = named(kept, "chat script")
        assert [span.status.status_code.name for span in (first, second)] == ["ERROR", "UNSET"]
        assert "the line is cut" not in first.to_json()

    on(store, moment, cut, check, tracer_provider=provider)


def test_whoever_does_not_trace_has_none(store: Store, moment: Moment, kept: InMemorySpanExporter) -> None:
    """Nothing is looked for, and nothing of the conventions is loaded into a call."""

    async def check(lab: Lab) -> None:
        await paid(lab)
        assert kept.get_finished_spans() == ()

    on(store, moment, app, check, secrets={"bank": SECRET})
