"""What bounds a long conversation: a look at loops, and a window that is the same wherever it is built."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic_ai.messages import UserPromptPart

from tests.agent.scripted import agent_of, asked, forget, look
from tests.worker.labs import on
from torpor import App
from torpor.errors import RunFailed
from torpor.testing import Place, Script, call

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab


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
