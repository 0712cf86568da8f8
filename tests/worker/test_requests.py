"""Messages with a sender, answers to them, and callers that wait: durable, once, whoever dies (G7)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.worker.labs import on
from torpor import App, Conflict, Context, Message, NotFound, RunFailed, UsageError, hours
from torpor.client import Client
from torpor.engine import events
from torpor.store.rows import RunFilter

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab, Run

app = App()


@app.flow
async def answers(ctx: Context, count: int) -> Any:
    """Answer so many questions, each one twice: the first answer counts."""
    senders = []
    for _ in range(count):
        message = await ctx.receive("question", whole=True)
        await ctx.reply(message, {"double": message.value * 2})
        await ctx.reply(message, "another one")
        senders.append((message.sender, bool(message.reply_to)))
    return senders


@app.flow
async def asks(ctx: Context, run: str) -> Any:
    """Ask another run."""
    try:
        return await ctx.request(run, "question", 21)
    except Conflict as error:
        return f"refused: {error}"


@app.flow
async def asks_itself(ctx: Context) -> Any:
    """Ask in vain."""
    await ctx.request(ctx.run_id, "question", 1)


@app.flow
async def replies_to_nothing(ctx: Context) -> Any:
    """Answer what is no message."""
    await ctx.reply("text", 1)  # type: ignore[arg-type]


@app.flow
async def hears(ctx: Context) -> Message:
    """Return a message whole."""
    return await ctx.receive("go", whole=True)


async def waiting(lab: Lab, flow: Any, given: Any = None) -> Run:
    """Start a flow and let it wait."""
    run = await lab.start(flow, given)
    await lab.settle()
    return run


def test_a_message_can_be_read_whole(store: Store, moment: Moment) -> None:
    """Its value, its sender, its moment; nobody waits for an answer."""

    async def check(lab: Lab) -> None:
        run = await lab.start(hears)
        at = lab.now
        big = "x" * 100_000
        await Client(lab.store).signal(run.name, "go", [big], sender="ana")
        lab.advance(60)
        assert await lab.result(run) == Message("go", [big], "ana", at, "")

    on(store, moment, app, check)


def test_a_client_gets_its_answer(store: Store, moment: Moment) -> None:
    """The same key is the same question, also after the run's end; the key of another run is another question."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run = await waiting(lab, answers, 1)
        asked = asyncio.create_task(client.request(run.name, "question", 4, key="k", sender="ana"))
        while not (await client.show(run.name)).unread and not asked.done():
            await lab.change()
        await lab.settle()
        assert await asked == {"double": 8}
        assert await lab.result(run) == [("ana", True)]
        assert await client.request(run.name, "question", 5, key="k") == {"double": 8}
        with pytest.raises(Conflict, match="is completed and did not answer"):
            await client.request(run.name, "question", 5, key="other")
        lab.advance(hours(24 * 7 + 1))
        await lab.store.transact(events.tidy)
        with pytest.raises(Conflict, match="did not answer"):
            await client.request(run.name, "question", 5, key="k")

    on(store, moment, app, check)


def test_a_question_that_is_not_answered(store: Store, moment: Moment) -> None:
    """Not in time: the run may still answer; not at all: the run ended."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run = await waiting(lab, answers, 1)
        await lab.kill()
        with pytest.raises(TimeoutError):
            await client.request(run.name, "question", 4, key="k", timeout_seconds=0.01)
        await lab.settle()
        assert await client.request(run.name, "question", 4, key="k") == {"double": 8}
        run = await waiting(lab, answers, 1)
        asked = asyncio.create_task(client.request(run.name, "unheard", 4))
        while not (await client.show(run.name)).unread and not asked.done():
            await lab.change()
        await lab.cancel(run)
        await lab.settle()
        with pytest.raises(Conflict, match="is cancelled and did not answer"):
            await asked
        with pytest.raises(NotFound):
            await client.request("answers-ZZZZ", "question", 4)
        for name in ("", "~reply"):
            with pytest.raises(UsageError):
                await client.request(run.name, name, 4)
        with pytest.raises(UsageError, match="a sender has no ~"):
            await client.signal(run.name, "question", 4, sender="ana~reply:c:x")
        with pytest.raises(UsageError, match="does not begin with ~"):
            await client.signal(run.name, "~callback:x", 4)

    on(store, moment, app, check)


@pytest.mark.slow
def test_a_run_gets_its_answer_wherever_a_worker_dies(store: Store, moment: Moment) -> None:
    """Asked once, answered once."""

    async def check(lab: Lab) -> None:
        first = await lab.start(answers, 100)
        count = 0
        async for crash in lab.every_crash(asks, first.name, drive=lambda lab, _: lab.settle()):
            assert await crash.result() == {"double": 42}, crash
            count += 1
        askers = [line.value["sender"] for line in await lab.journal(first) if line.kind == "consumed"]
        runs = await lab.store.transact(lambda tx: tx.list_runs(RunFilter(limit=200)))
        asking = [run for run in runs if run.id != first.number]
        assert sorted(askers) == sorted(f"run:{run.id}" for run in asking), "each asks once, undisturbed ones too"
        assert count > 10

    on(store, moment, app, check)


def test_a_run_that_cannot_answer_says_so(store: Store, moment: Moment) -> None:
    """It has ended, or never was, or is the asker itself."""

    async def check(lab: Lab) -> None:
        ended = await waiting(lab, answers, 0)
        for name in (ended.name, "answers-ZZZZ"):
            run = await lab.start(asks, name)
            assert await lab.result(run) == (
                f"refused: {name} does not answer question: the run that was asked has ended, or there is none"
            )
        run = await lab.start(asks_itself)
        with pytest.raises(RunFailed, match="asks itself"):
            await lab.result(run)
        run = await lab.start(replies_to_nothing)
        with pytest.raises(RunFailed, match="answers a Message"):
            await lab.result(run)

    on(store, moment, app, check)


def test_people_see_what_it_sleeps_for(store: Store, moment: Moment) -> None:
    """`ps` says whose answer is waited for."""

    async def check(lab: Lab) -> None:
        other = await waiting(lab, hears)
        run = await waiting(lab, asks, other.name)
        assert (await Client(lab.store).get(run.name)).reason == f"answer to question from {other.name}"

    on(store, moment, app, check)
