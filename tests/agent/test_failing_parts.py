"""Calls that fail, that a person settles, or that are a child's are seen in the stream: how each begins, and how it ended."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.agent.scripted import agent_of, forget
from tests.agent.test_parts import SECRET, heard
from tests.worker.labs import on
from torpor import App, Client
from torpor.agent.parts import VALUE_LETTERS
from torpor.testing import Script, call

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.agent.tools import ToolContext
    from torpor.store.protocol import Store
    from torpor.testing import Lab, Run

BEGAN: list[asyncio.Event] = []
"""Set when the tool that waits has begun."""
app = App()


@app.tool(safety="keyed", timeout=0.01)
async def act(ctx: ToolContext, how: str) -> Any:
    """Fail in some way."""
    if how == "odd":
        return asyncio.Event()
    if how == "late":
        await asyncio.Event().wait()
    raise ValueError("x" * (VALUE_LETTERS - 40) + ctx.secret("bank"))


async def pay(how: str) -> str:
    """Fail, nobody knows how far it came."""
    raise OSError(how)


async def wait(how: str) -> str:
    """Act until somebody interrupts."""
    del how
    BEGAN[0].set()
    await asyncio.Event().wait()
    return ""


CHILD = Script("tiles last", model="child")
child = app.agent("child", agent_of(CHILD))
scripts = {
    "pay": Script(call("pay", how="x"), "done", model="pay"),
    "wait": Script(call("wait", how="x"), "done", model="wait"),
    "child": Script(call("child", prompt="go"), "done", model="asks"),
}
failing = {how: Script(call("act", how=how), "done", model=how) for how in ("raises", "odd", "late")}
for how, script in failing.items():
    app.agent(how, agent_of(script, act))
app.agent("pays", agent_of(scripts["pay"], pay))
app.agent("waits", agent_of(scripts["wait"], wait))
app.agent("asks", agent_of(scripts["child"], app.delegate(child)))


def fresh() -> None:
    """Begin a test."""
    BEGAN[:] = [asyncio.Event()]
    forget(CHILD, *scripts.values(), *failing.values())


async def calls(lab: Lab, run: Run) -> list[Any]:
    """Return what is kept of a stream about calls."""
    return [part for part in await heard(lab, run) if isinstance(part, dict) and "tool" in part]


@pytest.mark.parametrize(
    ("how", "says"), [("raises", "ValueError: xxx"), ("odd", "cannot be kept"), ("late", "TimeoutError")]
)
def test_a_call_that_failed_has_a_beginning_and_an_end(store: Store, moment: Moment, how: str, says: str) -> None:
    """Its secret is struck before it is cut (G15)."""
    fresh()

    async def check(lab: Lab) -> None:
        run = await lab.start(how, "go")
        assert await lab.result(run) == "done"
        began, ended = await calls(lab, run)
        assert began == {"tool": "act", "call": "1/0", "args": {"how": how}}
        assert ended == {"tool": "act", "call": "1/0", "failed": ended["failed"]}
        assert says in ended["failed"]
        assert SECRET[:5] not in str(ended)

    on(store, moment, app, check, secrets={"bank": SECRET})


def test_it_is_said_once_wherever_a_worker_dies(store: Store, moment: Moment) -> None:
    """What is kept of the stream is what an undisturbed run says (G11)."""
    fresh()

    async def check(lab: Lab) -> None:
        undisturbed: list[Any] = []
        async for crash in lab.every_crash("raises", "go", before=fresh):
            await crash.result()
            parts = await heard(crash.lab, crash.run)
            undisturbed = undisturbed or parts
            assert len([part for part in parts if "tool" in part]) == 2, crash
            assert parts == undisturbed, crash

    on(store, moment, app, check, secrets={"bank": SECRET})


@pytest.mark.parametrize(
    ("answer", "end"), [({"happened": "paid"}, ("gave", "paid")), ({"fail": "no"}, ("failed", "no"))]
)
def test_what_a_person_says_of_it_is_its_end(
    store: Store, moment: Moment, answer: dict[str, Any], end: tuple[str, str]
) -> None:
    """While they are asked it is not seen: nobody knows whether it is over."""
    fresh()

    async def check(lab: Lab) -> None:
        run = await lab.start("pays", "go")
        await lab.settle()
        assert await calls(lab, run) == []
        (asked,) = await lab.waits(run)
        await lab.answer(asked, **answer)
        await lab.result(run)
        began, ended = await calls(lab, run)
        assert began == {"tool": "pay", "call": "1/0", "args": {"how": "x"}}
        word, says = end
        assert says in ended[word]

    on(store, moment, app, check)


def test_an_interrupted_call_ends(store: Store, moment: Moment) -> None:
    """The model is told that it was interrupted, and so is who looks on."""
    fresh()

    async def check(lab: Lab) -> None:
        run = await lab.start("waits", "go")
        settling = asyncio.create_task(lab.settle())
        await BEGAN[0].wait()
        await Client(lab.store).interrupt(run.name, by="ada", reason="too slow")
        await settling
        began, ended = await calls(lab, run)
        assert (began["call"], ended["call"]) == ("1/0", "1/0")
        assert "interrupted this call: too slow" in ended["failed"]

    on(store, moment, app, check)


def test_a_delegated_call_is_seen(store: Store, moment: Moment) -> None:
    """It begins when its child is asked and ends with the child's answer."""
    fresh()

    async def check(lab: Lab) -> None:
        run = await lab.start("asks", "go")
        await lab.result(run)
        assert await calls(lab, run) == [
            {"tool": "child", "call": "1/0", "args": {"prompt": "go"}},
            {"tool": "child", "call": "1/0", "gave": "tiles last"},
        ]

    on(store, moment, app, check)
