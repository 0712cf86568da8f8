"""Secrets that torpor resolved, in the places where only one path leads: log lines, and what an attempt says late (G15)."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.worker.labs import on
from torpor import App, Context, EffectContext, NotDone, hours
from torpor.cli.driving import JsonLines
from torpor.testing import Lab

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store

CANARY = 'hunter2-ümlaut-"quoted"-canary'
app = App()
STAGES: list[asyncio.Event] = []
"""An effect has begun; it may end."""
TOKENS: set[str] = set()
"""The tokens that were told to nobody but the log."""


class Pair(NamedTuple):
    """Something that is no plain list."""

    name: str
    value: str


@app.flow
async def chatty(ctx: Context) -> None:
    """Log what should not be logged."""
    secret = ctx.secret("token")
    callback = ctx.callback("somebody else", expires=hours(1))
    ctx.log(f"got {secret}", token=secret, deep={"all": [secret, 1], secret: Pair("a", secret)}, odd=ValueError(secret))
    ctx.log.warning("told", where=callback.token, how_many=2)
    TOKENS.add(callback.token)
    with suppress(TimeoutError):
        await callback


@app.effect
async def late(ctx: EffectContext, ending: str) -> str:
    """End when the test lets it, with a secret in what it says."""
    secret = ctx.secret("token")
    if STAGES:
        STAGES[0].set()
        await STAGES[1].wait()
    if ending == "raises":
        raise NotDone(f"{secret} was refused")
    return f"{secret} was accepted"


@app.flow
async def frozen(ctx: Context, ending: str) -> str:
    """Do one effect, whose worker is too late."""
    return await ctx.effect(late, ending)


def seen(record: logging.LogRecord) -> str:
    """Return a log line in each form that it is shown in."""
    return record.getMessage() + JsonLines().format(record)


def test_a_secret_is_in_no_log_line(store: Store, moment: Moment, caplog: pytest.LogCaptureFixture) -> None:
    """Neither in the event nor in a field, however deep; nor is a callback's token. What is no secret stays as it is."""

    async def check(lab: Lab) -> None:
        run = await lab.start(chatty)
        await lab.pass_time(hours(2))
        await lab.result(run)

    TOKENS.clear()
    with caplog.at_level(logging.INFO, "torpor"):
        on(store, moment, app, check, secrets={"token": CANARY})
    lines = [seen(record) for record in caplog.records]
    assert TOKENS
    for hidden in (*TOKENS, CANARY, "hunter2", "canary", json.dumps(CANARY)[1:-1]):
        assert [line for line in lines if hidden in line] == []
    assert sum("got [secret token]" in line for line in lines) == 1
    (told,) = [record for record in caplog.records if "told" in record.getMessage()]
    assert told.__dict__["fields"]["how_many"] == 2
    (got,) = [record for record in caplog.records if "got" in record.getMessage()]
    assert got.__dict__["fields"]["deep"]["all"] == ["[secret token]", 1]


@pytest.mark.parametrize("ending", ["returns", "raises"])
def test_a_secret_of_a_late_result_is_not_stored(store: Store, moment: Moment, ending: str) -> None:
    """An effect whose lease was lost settles its own question: by a way of its own, on which nothing is kept either."""
    STAGES[:] = [asyncio.Event(), asyncio.Event()]
    options: dict[str, Any] = {"store": store, "clock": moment, "secrets": {"token": CANARY}}

    async def main() -> None:
        async with Lab(app, concurrency=1, lease_seconds=3600.0, **options) as first, Lab(app, **options) as second:
            run = await first.start(frozen, ending)
            worker: Any = await first.worker()
            await STAGES[0].wait()
            _, end = STAGES
            STAGES.clear()
            moment.advance(3601)
            await second.settle()
            assert [effect.state for effect in await second.effects(run)] == ["unknown"]
            lost = asyncio.Event()
            worker.on_event = lambda event, *_: lost.set() if event == "lost" else None
            await asyncio.to_thread(worker._renewals.now)  # noqa: SLF001 - what its thread does at its time
            await lost.wait()
            end.set()
            while await second.state(run) not in {"completed", "failed"}:
                await second.change()
                await second.settle()
            journal = "\n".join(map(str, await second.journal(run)))
            assert "hunter2" not in journal
            assert "[secret token] was" in journal
            answers = [wait.answer for wait in store.transact_now(lambda tx: tx.waits([run.number], over=True))]
            assert not any(b"hunter2" in answer for answer in answers if answer)

    try:
        asyncio.run(main())
    finally:
        STAGES.clear()
