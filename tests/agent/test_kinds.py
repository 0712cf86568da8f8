"""What agents of pydantic-ai are made of keeps working as without torpor: each kind, wherever its worker dies."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    ModelRetry,
    NativeOutput,
    PromptedOutput,
    RunContext,
    TextOutput,
    Tool,
    ToolOutput,
    ToolReturn,
)
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import ModelMessage  # noqa: TC002 - pydantic-ai reads what a processor takes

from tests.agent.scripted import SEEN, asked, forget
from tests.worker.labs import on
from torpor import App
from torpor.testing import Place, Script, call

if TYPE_CHECKING:
    from pydantic_ai import ToolDefinition

    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab

pytestmark = pytest.mark.slow


class Trip(BaseModel):
    """A structured output."""

    to: str
    days: int


@dataclass
class Desk:
    """Dependencies."""

    city: str = "Rome"
    seen: list[str] = field(default_factory=list)


@dataclass
class Kind:
    """One kind of agent: its model, the agent, what it gives back, and how often what acts."""

    script: Script
    agent: Agent[Any, Any]
    output: Any
    acts: dict[str, int]
    turns: int
    beside: int = 1
    """How many calls of one answer are made again at most: those that act side by side and may be called again."""


def book(to: str, days: int) -> Trip:
    """Book it: an output that is a function's."""
    SEEN["book"] += 1
    return Trip(to=to, days=days)


def shout(text: str) -> str:
    """Make a text louder."""
    return text.upper()


def structured() -> Kind:
    """An output tool of a model, and a second kind of output that was not taken."""
    script = Script(call("look", at="Rome"), call("final_result_Trip", to="Rome", days=2), model="structured")
    return Kind(
        script, Agent(script, output_type=[Trip, int], tools=[look]), Trip(to="Rome", days=2), {"look Rome": 1}, 2
    )


def functional() -> Kind:
    """An output function, whose first arguments do not fit."""
    script = Script(call("book", to="Rome", days="many"), call("book", to="Rome", days=3), model="functional")
    return Kind(
        script, Agent(script, output_type=ToolOutput(book, name="book")), Trip(to="Rome", days=3), {"book": 1}, 2
    )


def as_text() -> Kind:
    """A function of the text."""
    script = Script(call("look", at="Rome"), "it is fine", model="as_text")
    return Kind(script, Agent(script, output_type=TextOutput(shout), tools=[look]), "IT IS FINE", {"look Rome": 1}, 2)


def native() -> Kind:
    """JSON in the text, by the model's own way."""
    script = Script(call("look", at="Rome"), '{"to": "Rome", "days": 4}', model="native")
    agent = Agent(script, output_type=NativeOutput(Trip), tools=[look])
    return Kind(script, agent, Trip(to="Rome", days=4), {"look Rome": 1}, 2)


def prompted() -> Kind:
    """JSON in the text, because it was asked for."""
    script = Script(call("look", at="Rome"), '{"to": "Rome", "days": 5}', model="prompted")
    agent = Agent(script, output_type=PromptedOutput(Trip), tools=[look])
    return Kind(script, agent, Trip(to="Rome", days=5), {"look Rome": 1}, 2)


def validated() -> Kind:
    """An output validator, which sends the model back twice."""
    script = Script(*[call("final_result", to="Rome", days=days) for days in (30, 20, 6)], model="validated")
    agent = Agent(script, output_type=Trip, retries=3)

    @agent.output_validator
    def short(_ctx: RunContext[Any], output: Trip) -> Trip:
        if output.days > 10:
            raise ModelRetry("at most ten days")
        return output

    return Kind(script, agent, Trip(to="Rome", days=6), {}, 3)


def instructed() -> Kind:
    """Instructions and a system prompt that are made anew, with what the agent depends on."""

    def says(_messages: list[ModelMessage], asked: Any) -> str:
        return f"{asked.instructions} by {len(_messages)}"

    script = Script(call("look", at="Rome"), says, model="instructed")
    agent = Agent(script, deps_type=Desk, tools=[look])

    @agent.instructions
    async def where(ctx: RunContext[Desk]) -> str:
        return f"You are in {ctx.deps.city}, at step {ctx.run_step}."

    return Kind(script, agent, "You are in Rome, at step 2. by 3", {"look Rome": 1}, 2)


def parallel() -> Kind:
    """Calls side by side, one of which must stand alone, and one that asks for another try."""
    script = Script(
        [call("look", at="A"), call("look", at="B"), call("alone", at="C"), call("picky", at="D")],
        [call("picky", at="d"), call("look", at="E")],
        "seen",
        model="parallel",
    )
    agent = Agent(script, tools=[look, Tool(alone, sequential=True), Tool(picky, max_retries=2)])
    return Kind(
        script, agent, "seen", {f"look {at}": 1 for at in "ABE"} | {"alone C": 1, "picky D": 1, "picky d": 1}, 3, 3
    )


def prepared() -> Kind:
    """A tool that is offered once something was seen, under a description made on the way."""
    script = Script(call("look", at="Rome"), call("enter", at="Rome"), "inside", model="prepared")

    async def once_seen(ctx: RunContext[Any], tool: ToolDefinition) -> ToolDefinition | None:
        return tool if ctx.run_step > 1 else None

    return Kind(
        script,
        Agent(script, tools=[look, Tool(enter, prepare=once_seen)]),
        "inside",
        {"look Rome": 1, "enter Rome": 1},
        3,
    )


def forgetful() -> Kind:
    """A history processor that drops all but the end of what was said."""
    script = Script(
        *[call("look", at=str(n)) for n in range(4)], lambda messages, _: f"of {len(messages)}", model="forgetful"
    )

    def newest(messages: list[ModelMessage]) -> list[ModelMessage]:
        return messages[:1] + messages[-2:] if len(messages) > 3 else messages

    agent = Agent(script, tools=[look], capabilities=[ProcessHistory(newest)])
    return Kind(script, agent, "of 3", {f"look {n}": 1 for n in range(4)}, 5)


def generous() -> Kind:
    """Tools that give back more than a result: content beside it, and structures of their own."""
    script = Script(
        [call("rich", at="Rome"), call("trip", to="Rome")], lambda messages, _: _last_texts(messages), model="generous"
    )
    output = "Rome, see | look here"
    return Kind(script, Agent(script, tools=[rich, trip]), output, {"rich Rome": 1, "trip Rome": 1}, 2, 2)


def _last_texts(messages: list[ModelMessage]) -> str:
    texts = [part.content for part in messages[-1].parts if part.part_kind in {"tool-return", "user-prompt"}]
    return " | ".join(text for text in texts if isinstance(text, str))


async def look(at: str) -> str:
    """Look somewhere."""
    SEEN[f"look {at}"] += 1
    await asyncio.get_running_loop().run_in_executor(None, str, at)  # a real wait, outside of the journal
    return f"{at} is fine"


def alone(at: str) -> str:
    """Do something while nothing else is done."""
    SEEN[f"alone {at}"] += 1
    return at


def picky(at: str) -> str:
    """Take small letters only."""
    SEEN[f"picky {at}"] += 1
    if at.isupper():
        raise ModelRetry("small letters, please")
    return at


def enter(at: str) -> str:
    """Go in."""
    SEEN[f"enter {at}"] += 1
    return at


def rich(at: str) -> ToolReturn[str]:
    """Give back a result and something to look at."""
    SEEN[f"rich {at}"] += 1
    return ToolReturn(f"{at}, see", content="look here", metadata={"by": at})


def trip(to: str) -> Trip:
    """Give back a model of pydantic."""
    SEEN[f"trip {to}"] += 1
    return Trip(to=to, days=1)


app = App()
KINDS = {
    make.__name__: make()
    for make in (
        structured,
        functional,
        as_text,
        native,
        prompted,
        validated,
        instructed,
        parallel,
        prepared,
        forgetful,
        generous,
    )
}
TOOLS = ("look", "alone", "picky", "enter", "rich", "trip")
for kind_name, kind in KINDS.items():
    own = [tool for toolset in kind.agent.toolsets for tool in getattr(toolset, "tools", {})]
    app.agent(kind_name, kind.agent, deps=Desk, safety=dict.fromkeys(own, "keyed"))


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_of_agent_is_the_same_as_without_torpor(name: str) -> None:
    """What the test expects is what pydantic-ai does by itself."""
    kind = KINDS[name]
    forget(kind.script)
    result = asyncio.run(kind.agent.run("go", deps=Desk()))
    assert result.output == kind.output
    assert kind.acts == SEEN
    assert len(asked(kind.script)) == kind.turns


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_of_agent_survives_wherever_its_worker_dies(store: Store, moment: Moment, name: str) -> None:
    """The same output, the same calls, no model asked twice for what is on record; the requests are paired (strict)."""
    kind = KINDS[name]

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(name, "go", before=lambda: forget(kind.script)):
            assert await crash.result() == kind.output, crash
            once_more = crash.place not in {Place.UNDISTURBED, Place.AFTER}
            extra = sum(SEEN.values()) - sum(kind.acts.values())
            assert set(SEEN) == set(kind.acts), crash
            assert 0 <= extra <= kind.beside, (crash, SEEN)
            assert sorted(set(asked(kind.script))) == list(range(kind.turns)), crash
            assert len(asked(kind.script)) - kind.turns <= once_more, (crash, asked(kind.script))

    on(store, moment, app, check)
