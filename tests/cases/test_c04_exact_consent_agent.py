"""C04 with an agent: an approval is used for arguments nobody approved.

While a run waits for consent to send(to=A): (a) a hook of pydantic-ai rewrites the arguments; (b) the worker dies and the
model, asked again, would call the same id with to=B; (c) the approver edits to C; (d) another tool with equal arguments is
called. Right: what runs equals what was shown. (a) the approver sees the final arguments; (b) what was recorded holds, and a
fresh turn with the same id asks afresh; (c) the edit is validated, C runs, and proposed, approved and executed
values are on record; (d) it is asked about by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic_ai import ToolCallPart
from pydantic_ai.capabilities import Hooks

from tests.agent.scripted import SEEN, agent_of, asked, forget, results
from tests.worker.labs import on
from torpor import App, Conflict, UsageError
from torpor.client import Client
from torpor.testing import Place, Script, call

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab

WORLD = {"to": "A"}
"""What the model would say if it were asked now, and what the hook knows."""


def send(to: str) -> str:
    """Send something."""
    SEEN[f"send {to}"] += 1
    return f"sent to {to}"


def erase(to: str) -> str:
    """Do otherwise, with arguments of the same shape."""
    SEEN[f"erase {to}"] += 1
    return f"erased {to}"


hooks: Hooks[Any] = Hooks()


@hooks.on.before_tool_execute
async def rewritten(_ctx: Any, *, args: dict[str, Any], **_more: Any) -> dict[str, Any]:
    """Send it elsewhere."""
    return {**args, "to": f"{args['to']} by way of {WORLD['to']}"}


def fickle(*_asked: Any) -> ToolCallPart:
    """Call under the same id whatever is said, with what the world says now."""
    return ToolCallPart("send", {"to": WORLD["to"]}, "call_0")


app = App()
HOOKED = Script(call("send", to="A"), "done")
FICKLE = Script(fickle, fickle, "done")
PLAIN = Script(call("send", to="A"), "done")
BOTH = Script([call("send", to="A"), call("erase", to="A")], "done")
app.agent("hooked", agent_of(HOOKED, send, capabilities=[hooks]), approve={"send": True})
app.agent("fickle", agent_of(FICKLE, send), approve={"send": True})
app.agent("plain", agent_of(PLAIN, send), approve={"send": True})
app.agent("both", agent_of(BOTH, send, erase), approve={"send": True, "erase": True}, safety={"send": "keyed"})


def test_a_hook_is_seen_by_whoever_approves(store: Store, moment: Moment) -> None:
    """(a) What a hook makes of the arguments is what is shown, and if it makes something else later, that is asked afresh."""
    forget(HOOKED)

    async def check(lab: Lab) -> None:
        WORLD["to"] = "B"
        run = await lab.start("hooked", "send it")
        await lab.settle()
        (first,) = await lab.waits(run)
        assert first.show["show"] == {"to": "A by way of B"}
        await lab.kill()
        WORLD["to"] = "C"
        await Client(lab.store).approve(first.name, by="ada")
        await lab.settle()
        assert not SEEN, "consent to B is none to C"
        (second,) = await lab.waits(run)
        assert second.name != first.name
        assert second.show["show"] == {"to": "A by way of C"}
        await lab.approve(second, by="ben")
        assert await lab.result(run) == "done"
        assert SEEN == {"send A by way of C": 1}
        assert results(HOOKED) == [("send", "sent to A by way of C", "success")]

    on(store, moment, app, check)


@pytest.mark.parametrize("died", ["waiting", "before its answer was recorded"])
def test_a_recorded_answer_holds(store: Store, moment: Moment, died: str) -> None:
    """(b) Nobody asks the model again for what it has said; and the same id in the next turn is another question (G10)."""
    forget(FICKLE)

    async def check(lab: Lab) -> None:
        WORLD["to"] = "A"
        client = Client(lab.store)
        if died != "waiting":
            lab.crash(Place.ACTED)
            await lab.worker()
        run = await lab.start("fickle", "send it")
        await lab.settle()
        assert asked(FICKLE) == ([0] if died == "waiting" else [0, 0])
        WORLD["to"] = "B"
        await lab.kill()
        (first,) = await lab.waits(run)
        assert first.show["show"] == {"to": "A"}
        await client.approve(first.name, by="ada")
        await lab.settle()
        assert SEEN == {"send A": 1}, "what was shown, not what the model would say now"
        (second,) = await lab.waits(run)
        assert second.show["show"] == {"to": "B"}
        with pytest.raises(Conflict, match="ada approved"):
            await client.approve(first.name, by="ada")
        await client.deny(second.name, by="ben")
        assert await lab.result(run) == "done"
        assert SEEN == {"send A": 1}
        assert [outcome for *_, outcome in results(FICKLE)] == ["success", "denied"]
        assert len(set(call_ids())) == 2, "the model's next request is accepted"

    on(store, moment, app, check)


def call_ids() -> list[str]:
    """Return the ids of the calls that the model was shown last."""
    messages = FICKLE.requests[-1].messages
    return [part.tool_call_id for message in messages for part in message.parts if isinstance(part, ToolCallPart)]


def test_an_edit_is_validated_and_on_record(store: Store, moment: Moment) -> None:
    """(c) What does not fit the tool is refused and the question stays open; C runs, and everybody can read all three."""
    forget(PLAIN)

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run = await lab.start("plain", "send it")
        await lab.settle()
        (wait,) = await lab.waits(run)
        proposed = (await client.wait(wait.name)).content["show"]
        for wrong in ({"to": 5}, {"whom": "C"}, {"": {"to": None}}):
            with pytest.raises(UsageError):
                await client.approve(wait.name, by="ada", edits=wrong)
        assert [item.wait for item in (await client.inbox()).items] == [wait.name]
        await client.approve(wait.name, by="ada", edits={"to": "C"})
        assert await lab.result(run) == "done"
        assert SEEN == {"send C": 1}
        lines = await lab.journal(run)
        shown = next(line.value["show"] for line in lines if line.kind == "wait" and line.key)
        approved = next(line.value for line in lines if line.kind == "consumed")
        executed = next(line.value["more"] for line in lines if line.kind == "intent")
        assert (proposed, shown) == ({"to": "A"}, {"to": "A"})
        assert (approved["by"], approved["value"], executed) == ("ada", {"to": "C"}, {"to": "C"})
        story = await client.show(run.name)
        assert "C" in next(effect.args for effect in story.effects if effect.effect.startswith("send"))
        assert any("ada" in line.outcome for line in story.lines if line.what.startswith("approve send"))

    on(store, moment, app, check)


def test_consent_to_one_tool_is_none_to_another(store: Store, moment: Moment) -> None:
    """(d) Two tools with equal arguments in one answer are two questions, and what is said to one says nothing to the other."""
    forget(BOTH)

    async def check(lab: Lab) -> None:
        run = await lab.start("both", "do it")
        await lab.settle()
        waits = {wait.title: wait for wait in await lab.waits(run)}
        assert sorted(waits) == ["erase?", "send?"]
        assert waits["send?"].show["show"] == waits["erase?"].show["show"] == {"to": "A"}
        await lab.approve(waits["send?"], by="ada")
        await lab.settle()
        await lab.kill()
        await lab.settle()
        assert SEEN == {"send A": 1}
        await lab.deny("erase?", by="ben")
        assert await lab.result(run) == "done"
        assert SEEN == {"send A": 1}
        assert [(name, outcome) for name, _, outcome in results(BOTH)] == [("send", "success"), ("erase", "denied")]

    on(store, moment, app, check)
