"""What an agent puts into its run's stream: its answers word by word, its tool calls, and nothing twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.agent.scripted import agent_of
from tests.worker.labs import on
from torpor import App, Client
from torpor.agent.parts import VALUE_LETTERS
from torpor.core.stream import Kept
from torpor.testing import Script, call

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.agent.tools import ToolContext
    from torpor.store.protocol import Store
    from torpor.testing import Lab, Run

SECRET = "a-long-secret-of-the-bank"  # noqa: S105 - not one
LONG = "word " * 100


app = App()


@app.tool(safety="keyed")
def pay(ctx: ToolContext, order: str, lines: list[str]) -> dict[str, Any]:
    """Give back a secret in the place where what is shown is cut."""
    del order, lines
    return {"pad": "x" * (VALUE_LETTERS - 35), "token": ctx.secret("bank")}


TALKS = Script(["Let me ", "see. ", call("pay", order=LONG, lines=["a"])], ["Done ", "it."])
desk = app.agent("desk", agent_of(TALKS, pay))
QUIET = Script(call("pay", order="7", lines=[]), call("pay", order="8", lines=[]), "Done.")
quiet = app.agent("quiet", agent_of(QUIET, pay))


async def heard(lab: Lab, run: Run) -> list[Any]:
    """Return what is kept of a stream, texts that follow each other in one."""
    kept = Kept()
    async for part in Client(lab.store).stream(str(run), follow=False):
        kept.take(part.n, part.kind, part.body)
    found: list[Any] = []
    for body in kept.parts.values():
        if isinstance(body, str) and found and isinstance(found[-1], str):
            found[-1] += body
        else:
            found.append(body)
    return found


def test_answers_and_calls_in_order(store: Store, moment: Moment) -> None:
    """Who speaks before what is said; a call's arguments cut, its secret struck before it was cut (G15)."""

    async def check(lab: Lab) -> None:
        run = await lab.start(desk, "pay it")
        assert await lab.result(run) == "Done it."
        says, text, began, ended, again, last = await heard(lab, run)
        assert says == again == {"says": "desk"}
        assert (text, last) == ("Let me see. ", "Done it.")
        assert began == {"tool": "pay", "call": "1/0", "args": {"order": began["args"]["order"], "lines": '["a"]'}}
        assert len(began["args"]["order"]) == VALUE_LETTERS
        assert ended == {"tool": "pay", "call": "1/0", "gave": ended["gave"]}
        assert SECRET[:5] not in str(ended)

    on(store, moment, app, check, secrets={"bank": SECRET})


def test_an_answer_that_says_nothing_is_not_announced(store: Store, moment: Moment) -> None:
    """Tool calls alone are no speech."""

    async def check(lab: Lab) -> None:
        run = await lab.start(quiet, "pay it")
        await lab.result(run)
        parts = await heard(lab, run)
        assert [next(iter(part)) for part in parts[:-1]] == ["tool", "tool", "tool", "tool", "says"]
        assert [part["call"] for part in parts[:4]] == ["1/0", "1/0", "2/0", "2/0"]

    on(store, moment, app, check, secrets={"bank": SECRET})


def test_whoever_looks_on_sees_it_once_whatever_dies(store: Store, moment: Moment) -> None:
    """A worker is killed at every point: what is kept of the stream is what an undisturbed run says (G11)."""

    async def check(lab: Lab) -> None:
        undisturbed: list[Any] = []
        async for crash in lab.every_crash(desk, "pay it"):
            await crash.result()
            parts = await heard(crash.lab, crash.run)
            undisturbed = undisturbed or parts
            assert parts == undisturbed, crash

    on(store, moment, app, check, secrets={"bank": SECRET})
