"""What an agent leaves in a store: each thing that was said once, and what people then see of it."""

from __future__ import annotations

import random
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from pydantic_ai.messages import ModelRequest, UserPromptPart

from tests.agent.scripted import agent_of, asked, forget, kept_messages, returns
from tests.worker.labs import checkpoints, on
from torpor import App
from torpor.agent.transcript import stored
from torpor.client import Client
from torpor.core.checkpoint import EMPTIED, KEEP_CHECKPOINTS
from torpor.store.values import encode
from torpor.testing import Place, Script, call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic_ai.messages import ModelMessage

    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab
    from torpor.testing.showing import Line

TURNS = 60
LETTERS = 1_000
KEPT = 2 * KEEP_CHECKPOINTS
"""So many turns are whole at most."""


@cache
def page(n: int) -> str:
    """Return a page of a book that nobody wrote."""
    draw = random.Random(n)  # noqa: S311 - not for secrets
    words = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(2, 9))) for _ in range(LETTERS // 4)]
    return " ".join(words)[:LETTERS]


def read(n: int) -> str:
    """Read a page."""
    return page(n)


def send(n: int) -> str:
    """Do something to the world."""
    return f"sent {n}"


def prompts_in(messages: Sequence[ModelMessage]) -> list[Any]:
    """Return what people said."""
    return [part.content for message in messages for part in message.parts if isinstance(part, UserPromptPart)]


def script(turns: int = TURNS) -> Script:
    """Return a model that reads page by page, and sends one letter."""
    return Script(call("send", n=0), *(call("read", n=n) for n in range(1, turns)), "done")


def told(lines: list[Line]) -> list[Line]:
    """Return the outcomes of model calls and tool calls."""
    return [line for line in lines if line.kind == "outcome" and line.key.startswith(("model@", "read@", "send@"))]


def test_a_turn_leaves_what_was_said_in_it_once(store: Store, moment: Moment) -> None:
    """At most twice the payload and what the turns that can be gone back to hold; more turns add no more of that."""
    app = App()
    reader = app.agent("reader", agent_of(script(), read, send), safety={"read": "repeatable"}, watchdog=None)

    async def check(lab: Lab) -> None:
        run = await lab.start(reader, "read it all")
        assert await lab.result(run) == "done"
        _, left = await lab.store.transact(lambda tx: tx.measure([run.number]))
        whole = KEPT * (2 * LETTERS + 2_000)
        assert left - whole < 1.2 * TURNS * LETTERS
        messages = kept_messages(lab.store, run.number)
        assert [content for _, content, _ in returns(messages)] == ["sent 0", *map(read, range(1, TURNS))]

    on(store, moment, app, check)


@pytest.mark.parametrize("keep", [0, 3])
def test_what_was_emptied_is_said_to_stand_in_the_conversation(store: Store, moment: Moment, keep: int) -> None:
    """Nobody is shown `None` for what a call gave back; what was asked, and that it is done, is told as before."""
    app = App()
    agent = agent_of(script(2 * KEPT), read, send)
    reader = app.agent("reader", agent, safety={"read": "repeatable"}, watchdog=None, keep_checkpoints=keep)

    async def check(lab: Lab) -> None:
        run = await lab.start(reader, "read it all")
        lab.crash(Place.AFTER, 51)
        assert await lab.result(run) == "done"
        lines = told(await lab.journal(run))
        gone = [line for line in lines if line.value == EMPTIED]
        assert lines[: len(gone)] == gone
        most = KEPT if keep == 0 else 2 * keep + 1
        assert len(lines) - 2 * most <= len(gone) < len(lines) - 2 * keep
        assert not [line for line in lines if line.value is None]
        [sent] = await lab.effects(run)
        assert (sent.state, sent.intents, sent.result) == ("done", 1, EMPTIED)
        shown = await Client(lab.store).show(run.name)
        assert [(line.effect, line.outcome) for line in shown.effects] == [("send@0", "done")]
        assert not [line for line in shown.lines if "None" in line.what + line.outcome]

    on(store, moment, app, check)


def test_a_kept_checkpoint_is_gone_on_from_as_if_nothing_was_emptied(store: Store, moment: Moment) -> None:
    """Its conversation is whole, and the model is asked what it was asked the first time."""
    model, app = script(45), App()
    reader = app.agent("reader", agent_of(model, read, send), safety={"read": "repeatable"}, watchdog=None)

    async def check(lab: Lab) -> None:
        run = await lab.start(reader, "read it all")
        assert await lab.result(run) == "done"
        points = [point for point in await checkpoints(lab, run.name) if point > 0]
        first = [(prompts_in(one.messages), returns(one.messages)) for one in model.requests]
        forget(model)
        copy = await Client(lab.store).fork(run.name, at=points[0], by="ana")
        assert copy.outlook.cannot_undo == []
        await lab.settle()
        assert (await Client(lab.store).show(copy.run_id)).result == "done"
        again = [(prompts_in(one.messages), returns(one.messages)) for one in model.requests]
        assert KEEP_CHECKPOINTS <= len(again) <= KEPT + 1
        assert asked(model) == list(range(46 - len(again), 46))
        assert again == first[-len(again) :]

    on(store, moment, app, check)


def test_instructions_stand_in_the_first_message_they_were_given_with(store: Store, moment: Moment) -> None:
    """Not in each, and not the ids of pydantic-ai's own run; other ones stand where they begin."""
    model, app = Script(*(call("send", n=n) for n in range(5)), "done"), App()
    agent = agent_of(model, send)
    asked_for = [0]

    @agent.instructions
    def more() -> str:
        asked_for[0] += 1
        return "Be quick." if asked_for[0] < 3 else "Be slow."

    sender = app.agent("sender", agent, watchdog=None)

    async def check(lab: Lab) -> None:
        run = await lab.start(sender, "send it all")
        assert await lab.result(run) == "done"
        messages = kept_messages(lab.store, run.number)
        said = [message.instructions for message in messages if isinstance(message, ModelRequest)]
        assert [(n, one) for n, one in enumerate(said) if one] == [
            (0, "Be brief.\n\nBe quick."),
            (2, "Be brief.\n\nBe slow."),
        ]
        assert {(message.run_id, message.conversation_id) for message in messages} == {(None, None)}
        assert all(b"complete" not in encode(stored(message)) for message in messages)

    on(store, moment, app, check)
