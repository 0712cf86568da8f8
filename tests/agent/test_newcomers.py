"""What a newcomer met: each thing is said once, where it is, and by its name."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from pydantic_ai import BinaryContent, ImageUrl, RunContext
from pydantic_ai.exceptions import ApprovalRequired

from tests.agent.scripted import agent_of, forget
from tests.worker.labs import on
from torpor import App, Budget, UsageError
from torpor.agent.asking import forget_pauses
from torpor.cli.driving import ForPeople
from torpor.client import Client
from torpor.runtime import load_app
from torpor.testing import Script, call

if TYPE_CHECKING:
    from pathlib import Path

    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab


async def add(a: int) -> int:
    """Add."""
    return a


async def refund(ctx: RunContext[Any], euros: int) -> str:
    """Ask if it is much."""
    if not ctx.tool_call_approved:
        raise ApprovalRequired(metadata={"why": f"{euros} euros are much", "limit": 50})
    return "paid"


COUNTS = Script(call("add", a=1), "done", model="counts")
ASKS = Script(call("refund", euros=70), "done", model="nobody:asks")
app = App()
app.agent("counts", agent_of(COUNTS, add), safety={"add": "keyed"}, budget=Budget(model_calls=1))
app.agent("free", agent_of(Script("done", model="free")))
app.agent("asks", agent_of(ASKS, refund), approve={})


def test_an_unknown_price_is_said_once(store: Store, moment: Moment, caplog: pytest.LogCaptureFixture) -> None:
    """Of a model in a process, whatever many calls and runs ask it; by its name, without a stray colon.

    A script without a provider costs nothing, and nothing is said.
    """
    forget(ASKS)
    forget_pauses()

    async def check(lab: Lab) -> None:
        for _ in range(3):
            run = await lab.start("asks", "go")
            await lab.settle()
            await lab.approve(run)
            await lab.result(run)
        (said,) = [record.getMessage() for record in caplog.records if "the price of" in record.getMessage()]
        assert "is unknown: its calls are not counted" in said
        assert ": is unknown" not in said
        assert "Budget(model_calls=..., tokens=...) bounds them" in said
        caplog.clear()
        free = await lab.start("free", "go")
        assert await lab.result(free) == "done"
        assert not [record for record in caplog.records if "the price of" in record.getMessage()]

    with caplog.at_level(logging.INFO, "torpor"):
        on(store, moment, app, check)


def test_undeclared_tools_are_one_line(store: Store, moment: Moment, caplog: pytest.LogCaptureFixture) -> None:
    """For each agent, with what to write; what is declared is not named."""
    shop = App()
    shop.agent("one", agent_of(Script("done"), add))
    shop.agent("two", agent_of(Script("done"), add, refund))
    shop.agent("none", agent_of(Script("done"), add), safety={"add": "once"})

    async def check(lab: Lab) -> None:
        assert await lab.result(await lab.start("none", "go")) == "done"
        shown = [
            ForPeople("%(message)s").format(record) for record in caplog.records if "`once`" in record.getMessage()
        ]
        assert sorted(shown) == [
            'one: add counts as `once`; to change: safety={"add": "repeatable"}',
            'two: add, refund count as `once`; to change: safety={"add": "repeatable"}',
        ]

    with caplog.at_level(logging.WARNING, "torpor"):
        on(store, moment, shop, check)


def test_less_than_none_is_no_grant(store: Store, moment: Moment) -> None:
    """It is a slip, and the question stays open; none is an answer."""
    forget(COUNTS)

    async def check(lab: Lab) -> None:
        run = await lab.start("counts", "go")
        await lab.settle()
        (wait,) = await lab.waits(run)
        with pytest.raises(UsageError, match="at least 0"):
            await lab.answer(wait, value=-5)
        await lab.answer(wait, value=1)
        assert await lab.result(run) == "done"

    on(store, moment, app, check)


def test_a_tools_reason_is_seen_by_whoever_approves(store: Store, moment: Moment) -> None:
    """It is a part of what they consent to; the arguments can be edited as ever."""
    forget(ASKS)

    async def check(lab: Lab) -> None:
        run = await lab.start("asks", "go")
        await lab.settle()
        (wait,) = await lab.waits(run)
        assert wait.title == "refund? why: 70 euros are much, limit: 50"
        assert wait.show["show"] == {"euros": 70}
        await lab.approve(wait, by="ada", edits={"euros": 7})
        assert await lab.result(run) == "done"

    on(store, moment, app, check)


def test_who_decided_is_seen_although_the_run_was_cancelled(store: Store, moment: Moment) -> None:
    """They were told that their decision holds; the cancel came before anybody used it."""
    forget(ASKS)

    async def check(lab: Lab) -> None:
        run = await lab.start("asks", "go")
        await lab.settle()
        await lab.drain()
        await lab.approve(run, by="ada")
        await Client(lab.store).cancel(run.name)
        await lab.settle()
        assert await lab.state(run) == "cancelled"
        lines = (await Client(lab.store).show(run.name)).lines
        (asked,) = [line for line in lines if line.what.startswith("approve refund?")]
        assert asked.outcome == "ada approved, not used"

    on(store, moment, app, check)


def test_a_providers_package_that_is_not_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, and the command."""
    monkeypatch.setitem(__import__("sys").modules, "anthropic", None)
    monkeypatch.delitem(__import__("sys").modules, "pydantic_ai.providers.anthropic", raising=False)
    file = tmp_path / "lacks.py"
    file.write_text("from pydantic_ai import Agent\nagent = Agent('anthropic:claude-x')\n")
    with pytest.raises(UsageError) as refused:
        load_app(str(file))
    assert refused.value.message.endswith("Please install the `anthropic` package to use the Anthropic provider")
    assert refused.value.hint == 'pip install "pydantic-ai-slim[anthropic]"'


@pytest.mark.parametrize(
    "given",
    [None, 17, {"a": 1}, [], True, [["look", {"n": 1}]], ["look", 5], [None], [{"order": 17}], [{"kind": "image-url"}]],
)
def test_a_start_without_a_prompt_is_refused(store: Store, moment: Moment, given: Any) -> None:
    """Nothing is started: a run of it would fail, and nothing could mend it. A long text and a list are prompts."""
    forget(COUNTS)

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        for start in (client.start, client.pick_up):
            with pytest.raises(UsageError, match=r"counts is an agent, and .* is no prompt") as refused:
                await start("counts", given)
            assert "torpor start counts" in refused.value.hint
        assert await lab.store.transact(lambda tx: tx.get_runs(range(1, 10))) == {}
        picture = BinaryContent(b"x", media_type="image/png")
        for prompt in (
            "go",
            "go " * 40_000,
            ["look", "again"],
            ["look", picture],
            ("look", ImageUrl("https://a/b.png")),
        ):
            assert (await client.start("counts", prompt)).created

    on(store, moment, app, check)


@pytest.mark.parametrize("given", [None, 17, [], [["look"]]])
def test_a_schedule_without_a_prompt_is_refused(store: Store, moment: Moment, given: Any) -> None:
    """Every run of it would fail. With a text it is made; a flow needs none."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        with pytest.raises(UsageError, match=r"schedule nightly: counts is an agent, and .* is no prompt") as refused:
            await client.create_schedule("nightly", "counts", "0 3 * * *", input=given)
        assert "an input" in refused.value.hint
        assert await client.schedules() == []
        assert (await client.create_schedule("nightly", "counts", "0 3 * * *", input="count")).outcome == "created"

    on(store, moment, app, check)
