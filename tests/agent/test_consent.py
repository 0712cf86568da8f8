"""Consent to tool calls: what runs is what was shown or what a person made of it, and the model is told what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic_ai.exceptions import CallDeferred

from tests.agent.scripted import SEEN, agent_of, forget, prompts, results
from tests.worker.labs import on
from torpor import App, Client, RunFailed
from torpor.testing import Script, call

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab


def send(to: str, subject: str = "hello") -> str:
    """Send a mail."""
    SEEN[f"send {to} {subject}"] += 1
    return f"sent to {to}"


app = App()
MAILS = Script(call("send", to="ada@example.org", subject="news"), "done")
mailer = app.agent("mailer", agent_of(MAILS, send), approve={"send": True})
picky = app.agent("picky", agent_of(MAILS, send), approve={"send": lambda to, **_more: to.endswith("example.org")})


def hand_over(to: str) -> str:
    """Let somebody outside do it."""
    raise CallDeferred(metadata={"to": to})


HANDS = Script(call("hand_over", to="bob"), "done")
hander = app.agent("hander", agent_of(HANDS, hand_over), safety={"hand_over": "repeatable"})


def test_a_deferred_call_is_a_clear_error(store: Store, moment: Moment) -> None:
    """Nobody waits for an answer that nothing could bring: the run says so and what to do."""
    forget(HANDS)

    async def check(lab: Lab) -> None:
        run = await lab.start(hander, "hand it over")
        with pytest.raises(RunFailed, match="raised CallDeferred") as failed:
            await lab.result(run)
        assert failed.value.kind == "UsageError"

    on(store, moment, app, check)


def test_an_edit_runs_and_the_model_is_told(store: Store, moment: Moment) -> None:
    """A person changed the subject: that mail is sent, the result is of that call, and a sentence says what was changed."""
    forget(MAILS)

    async def check(lab: Lab) -> None:
        run = await lab.start(mailer, "write to ada")
        await lab.settle()
        (wait,) = await lab.waits(run)
        assert wait.show["show"] == {"to": "ada@example.org", "subject": "news"}
        assert not SEEN["send ada@example.org news"]
        await lab.approve(run, by="bob", edits={"subject": "no news"})
        assert await lab.result(run) == "done"
        assert SEEN["send ada@example.org no news"] == 1
        assert results(MAILS) == [("send", "sent to ada@example.org", "success")]
        assert prompts(MAILS)[-1] == (
            "bob changed subject from 'news' to 'no news' before send ran. The result is of the changed call."
        )

    on(store, moment, app, check)


def test_a_denial_is_a_result(store: Store, moment: Moment) -> None:
    """The model hears who denied it and why; nothing was sent."""
    forget(MAILS)

    async def check(lab: Lab) -> None:
        run = await lab.start(mailer, "write to ada")
        await lab.settle()
        await lab.deny(run, by="bob", note="she is away")
        assert await lab.result(run) == "done"
        assert results(MAILS) == [
            ("send", "bob denied this call of send: she is away. It was not made.", "denied"),
        ]
        assert not any(key.startswith("send") for key in SEEN)

    on(store, moment, app, check)


def test_approvals_that_an_interrupt_ended_are_over(store: Store, moment: Moment) -> None:
    """Two that are alike are named once while they are open; right after the interrupt neither is told as asked."""
    twice = Script([call("send", to="ada"), call("send", to="bob")], "done")
    app = App()
    many = app.agent("many", agent_of(twice, send), approve={"send": True})

    async def check(lab: Lab) -> None:
        run, client = await lab.start(many, "write"), Client(lab.store)
        await lab.settle()
        shown = await client.show(run.name)
        assert shown.line.reason == "approve send? (2)"
        await client.interrupt(run.name, by="ada")
        await lab.settle()
        lines = [line for line in (await client.show(run.name)).lines if line.what == "approve send?"]
        assert [line.outcome for line in lines] == ["interrupted"] * 2
        assert all(line.ended_at is not None for line in lines)

    on(store, moment, app, check)


def test_a_policy_of_the_arguments_asks(store: Store, moment: Moment) -> None:
    """A function of the arguments decides whether a person is asked."""
    forget(MAILS)

    async def check(lab: Lab) -> None:
        run = await lab.start(picky, "write to ada")
        await lab.settle()
        await lab.approve(run, by="bob")
        assert await lab.result(run) == "done"
        assert SEEN["send ada@example.org news"] == 1

    on(store, moment, app, check)
