"""What people read fits the terminal they have: nothing is cut that matters, and each answer says what can be typed next."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

import pytest

from torpor.client import Client
from torpor.engine.runs import register
from torpor.runtime import Process, load_app, opened

if TYPE_CHECKING:
    from tests.cli.shell import Shell

pytestmark = pytest.mark.slow

WAITING = '''"""An app of which a run waits for everything that comes from outside."""

from __future__ import annotations

from torpor import App, Context, days

app = App()


@app.effect
async def refund(order: str) -> str:
    raise OSError(f"connection reset by peer while the payment provider was asked to refund the order {order}")


@app.flow
async def asks(ctx: Context, about: str) -> object:
    return await ctx.approval(f"Send the confirmation about {about} to the customer who wrote twice?", expires=days(1))


@app.flow
async def torn(ctx: Context, order: str) -> str:
    return await ctx.effect(refund, order)


@app.flow
async def hook(ctx: Context) -> object:
    return await ctx.callback("payment")


@app.flow
async def paid(ctx: Context) -> object:
    return await ctx.event("order.paid", where={"order": 881})


@app.flow
async def hears(ctx: Context, name: str) -> object:
    return await ctx.receive(name)


@app.flow
async def family(ctx: Context) -> object:
    return await ctx.join(await ctx.spawn("hears", "a child's word"))


@app.flow
async def broken(ctx: Context) -> float:
    return 1 / 0
'''
STARTED = {
    "asks": "order 88121",
    "torn": "a-very-long-order-number-88121",
    "hook": None,
    "paid": None,
    "hears": "two words",
    "family": None,
    "broken": None,
}


@pytest.fixture
def waiting(shell: Shell) -> dict[str, str]:
    """Return runs by their program."""
    (shell.folder / "waiting.py").write_text(WAITING, "utf-8")

    async def fill() -> dict[str, str]:
        app = load_app(str(shell.folder / "waiting.py"))
        async with opened(f"sqlite:///{shell.folder / 'torpor.db'}") as store:
            await store.transact(register, [(flow.name, flow.version, flow.source) for flow in app.flows.values()])
            await store.transact(register, [("hears", 1, "waiting:hears")], tag="gpu")
            client = Client(store)
            ids = {name: (await client.start(name, value)).run_id for name, value in STARTED.items()}
            ids["tagged"] = (await client.start("hears", "x", tag="gpu")).run_id
            await Process(store, app, name="w1", until_idle=True).run()
        return ids

    return asyncio.run(fill())


def following(shell: Shell, run: str) -> list[str]:
    """Return what `show` says can be typed next."""
    lines = shell.said("show", run).splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("next: "))
    return [re.split(r" +#", line[6:])[0].strip() for line in lines[first:]]


def test_each_command_is_listed_whole(shell: Shell) -> None:
    """In a terminal of 80 columns no command's sentence is cut."""
    listed = shell.run("--help", COLUMNS="80").out.split("Commands:")[1]
    assert "..." not in listed
    assert max(len(line) for line in listed.splitlines()) <= 80


@pytest.mark.parametrize("width", [80, 140])
def test_lines_fit(shell: Shell, waiting: dict[str, str], width: int) -> None:
    """Tables are cut where it costs least, texts are broken between words and indented; a moment is never cut."""
    columns = {"COLUMNS": str(width)}
    listed = shell.said("ps", **columns)
    assert re.search(r"exp\. tomorrow \d\d:\d\d\n", listed)
    inbox = [line.split()[1] for line in shell.said("inbox", **columns).splitlines() if line.startswith(("?", "!"))]
    said = [listed, *(shell.said("inbox", wait, **columns) for wait in inbox)]
    said += [shell.said(*words, **columns) for words in (["doctor"], ["inbox"], ["ps", "--all"], ["schedules"])]
    said += [shell.said("show", run, **columns) for run in waiting.values()]
    assert [line for text in said for line in text.splitlines() if len(line) > width] == []
    assert all("next: " in text for text in said if "safe to stop" not in text and "@app.schedule" not in text)
    doctor = next(text for text in said if "safe to stop" in text)
    assert "refund" in doctor
    words = " ".join(" ".join(said).split())
    assert "about order 88121 to the customer who wrote twice?" in words
    assert "was asked to refund the order a-very-long-order-number-88121" in words


def test_a_pipe_has_whole_lines(shell: Shell, waiting: dict[str, str]) -> None:
    """Without a terminal nothing is cut, broken or coloured, also with TERM set; NO_COLOR beats FORCE_COLOR."""
    done = shell.run("show", waiting["asks"], FORCE_COLOR="1", NO_COLOR="1")
    assert "\x1b" not in done.out
    assert "needs you: approve Send the confirmation about order 88121 to the customer who wrote twice?\n" in done.out
    assert "\x1b[1;33m" in shell.run("show", waiting["asks"], FORCE_COLOR="1").out
    plain = shell.run("ps", PYTHONUTF8="0", LC_ALL="C", PYTHONIOENCODING="ascii")
    assert plain.out.isascii()


def test_what_can_be_typed_next(shell: Shell, waiting: dict[str, str]) -> None:
    """By what a run waits for, or how it ended."""
    runs = waiting
    wait = {name: shell.ok("show", runs[name])["line"]["waits"][0]["wait"] for name in ("asks", "hook")}
    (child,) = shell.ok("show", runs["family"])["family"]["children"]
    assert {name: following(shell, run) for name, run in runs.items()} == {
        "asks": [f"torpor inbox {wait['asks']}"],
        "torn": [f"torpor inbox {shell.ok('show', runs['torn'])['line']['waits'][0]['wait']}"],
        "hook": [f"torpor answer {wait['hook']} JSON"],
        "paid": ["torpor signal --event order.paid JSON"],
        "hears": [f"torpor signal {runs['hears']} 'two words' VALUE"],
        "family": [f"torpor show {child['run']}"],
        "broken": [f"torpor retry {runs['broken']}", f"torpor fork {runs['broken']} --at 0"],
        "tagged": ["torpor worker APP.py --tag gpu"],
    }


def test_a_callback_is_answered_by_its_wait(shell: Shell, waiting: dict[str, str]) -> None:
    """Whoever has the store needs no secret; it counts once; what no answer ends says what does."""
    wait = shell.ok("show", waiting["hook"])["line"]["waits"][0]["wait"]
    assert shell.ok("inbox", wait)["asks"] == "callback"
    refused = shell.run("approve", wait, "--yes")
    assert (refused.code, refused.err.splitlines()[0]) == (2, f"error: {wait} waits for a callback: payment")
    assert shell.run("answer", wait, "{").code == 2
    assert shell.ok("answer", wait, '{"paid": 1}') == {"run": waiting["hook"], "new": True}
    again = shell.run("answer", wait, "2")
    assert again.out.startswith(f"{waiting['hook']} was answered before: this one is already handled\n")
    assert shell.run("worker", "waiting.py", "--until-idle").code == 0
    assert shell.ok("show", waiting["hook"])["result"] == {"paid": 1}
    assert shell.run("answer", wait, "3").code == 4
    message = shell.ok("show", waiting["hears"])["line"]["waits"][0]["wait"]
    done = shell.run("answer", message, "1")
    assert done.err.splitlines() == [
        f"error: {message} waits for message two words, which no answer ends",
        f"hint: torpor show {waiting['hears']}",
    ]
