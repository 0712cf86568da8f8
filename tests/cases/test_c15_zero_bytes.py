"""C15: zero bytes in text.

U+0000 stands in a step's result (a value and a nested key), a signal's payload, a run's input, an effect's arguments, an
error's message, an approval's title and content, a person's note and a log line. Right: nothing fails or hangs for it,
everything reads back as the same text on both stores, and `torpor show --json` prints it escaped. The one stated
replacement: the short title of a wait, words for people, has U+FFFD in its place; the content a person decides about has
not. The six characters backslash-u-0-0-0-0 stay as they are.
"""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from torpor import App, Context, EffectContext, NeedsPerson, RunFailed, StepFailed
from torpor.client import Client
from torpor.runtime import Process, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

ZERO = "a\0b"
SIX = r"\u0000"
DEEP = {"key\0": {"in\0ner": [ZERO, SIX]}, SIX: "\0"}

app = App()
_told: list[Any] = []


@app.step
async def echo(value: Any) -> Any:
    """Return what it is given."""
    return value


@app.effect(safety="keyed")
async def tool(ctx: EffectContext, text: str, *, named: Any) -> str:
    """Take arguments with zeros in them."""
    _told.append((text, named))
    return ctx.key


@app.effect
async def torn() -> None:
    """Fail in a way that nobody knows about."""
    raise OSError(f"connection {ZERO}")


@app.step
async def breaks() -> None:
    """Fail with a zero in the message."""
    raise ValueError(ZERO)


@app.flow
async def carries(ctx: Context, given: Any) -> dict[str, Any]:
    """Let zeros go through everything there is."""
    ctx.log(f"line {ZERO}", field=ZERO)
    found: dict[str, Any] = {"input": given, "step": await ctx.step(echo, DEEP)}
    await ctx.effect(tool, ZERO, named=DEEP)
    found["signal"] = await ctx.receive("go")
    answer = await ctx.approval(f"Send {ZERO}?", show=DEEP)
    found["note"] = answer.note
    try:
        await ctx.step(breaks)
    except StepFailed as failed:
        found["error"] = failed.detail
    return found


@app.flow
async def fails(ctx: Context) -> None:
    """End with a zero in the error."""
    await ctx.step(echo, SIX)
    raise ValueError(ZERO)


@app.flow
async def asks(ctx: Context) -> Any:
    """Have an effect whose outcome nobody knows, with a zero in the reason."""
    return await ctx.effect(torn)


def working(url: str, check: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
    """Run a check beside a worker."""

    async def main() -> None:
        async with opened(url) as store:
            process = Process(store, app)
            going = asyncio.create_task(process.run())
            await process.worker.ready.wait()
            await check(Client(store))
            process.worker.stop()
            await going

    asyncio.run(main())


async def torpor(url: str, *words: str, fails: bool = False) -> str:
    """Run a command, and return what it prints: never a raw zero."""
    command = [sys.executable, "-m", "torpor", *words, "--store", url]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=False)
    assert (done.returncode == 0) is not fails, done
    assert b"\0" not in done.stdout + done.stderr
    return done.stdout.decode()


async def asked(client: Client, run: str) -> str:
    """Return the id of the run's wait for a person, once it is there."""
    with pytest.raises(NeedsPerson):
        await client.result(run, person="raise")
    [wait] = (await client.get(run)).waits
    return wait.wait


@pytest.mark.slow
def test_values_come_back_as_they_were(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Through input, steps, effects, signals, approvals, errors and log lines (G14)."""
    _told.clear()

    async def check(client: Client) -> None:
        run = (await client.start("carries", DEEP)).run_id
        await torpor(url, "signal", run, "go", json.dumps(DEEP))
        wait = await asked(client, run)
        item = await client.wait(wait)
        assert item.content["show"] == DEEP
        listed = json.loads(await torpor(url, "inbox", "--json"))
        assert [one["what"] for one in listed["items"]] == ["Send a\ufffdb?"]
        await torpor(url, "inbox", wait)
        await client.approve(wait, by=ZERO, note=ZERO)
        assert await client.result(run) == {"input": DEEP, "step": DEEP, "signal": DEEP, "note": ZERO, "error": ZERO}
        printed = await torpor(url, "show", run, "--json")
        assert json.loads(printed)["result"]["step"] == DEEP
        assert SIX in printed
        assert json.dumps(SIX) in printed
        await torpor(url, "show", run)

    with caplog.at_level(logging.INFO, "torpor"):
        working(url, check)
    assert _told == [(ZERO, DEEP)]
    assert sum("line" in record.getMessage() and "a" in record.getMessage() for record in caplog.records) >= 1
    assert not any("\0" in record.getMessage() for record in caplog.records)


@pytest.mark.slow
def test_an_error_with_a_zero_ends_a_run_and_nothing_else(url: str) -> None:
    """The run fails with the message as it was raised, and can be shown."""

    async def check(client: Client) -> None:
        run = (await client.start("fails")).run_id
        with pytest.raises(RunFailed) as failed:
            await client.result(run)
        assert failed.value.detail == ZERO
        shown = json.loads(await torpor(url, "show", run, "--json"))
        assert shown["line"]["state"] == "failed"
        await torpor(url, "show", run)
        await torpor(url, "ps", "--all")

    working(url, check)


@pytest.mark.slow
def test_an_unknown_effect_with_a_zero_is_settled(url: str) -> None:
    """The question reaches a person, and an answer with a zero in it reaches the run."""

    async def check(client: Client) -> None:
        run = (await client.start("asks")).run_id
        wait = await asked(client, run)
        await torpor(url, "inbox", wait)
        await torpor(url, "answer", wait, "--happened", json.dumps(ZERO), "--by", "ada")
        assert await client.result(run) == ZERO

    working(url, check)
