"""Nothing is stuck in silence (G13): the table of docs/operations.md is walked, and each of its states is brought about.

Each row says how a run comes to stand, what `torpor ps` says of it, and which line of `torpor doctor` has it.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.stores import raw
from torpor import App, Context
from torpor.client import Client
from torpor.core.commit import NewMessage
from torpor.core.ids import parse_run
from torpor.engine import runs
from torpor.testing import Lab, Place

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PAGE = Path(__file__).parents[2] / "docs/operations.md"
HEADING = "## What can keep a run from going on"
LARGE = "much " * 20_000

app = App()
CHANGED = [False]


@app.step
async def look(what: str) -> str:
    """Look."""
    return what


@app.step
async def other(what: str) -> str:
    """Look elsewhere."""
    return what


@app.effect
async def pay(what: str) -> str:
    """Act once."""
    return what


@app.flow
async def echo(ctx: Context, value: Any) -> Any:
    """Look, and return what came."""
    return await ctx.step(look, value)


@app.flow
async def breaks(ctx: Context) -> None:
    """Fail."""
    del ctx
    raise ValueError("broken")


@app.flow
async def naps(ctx: Context) -> None:
    """Sleep."""
    await ctx.sleep(3600)


@app.flow
async def hears(ctx: Context) -> Any:
    """Wait for a message."""
    return await ctx.receive("go")


@app.flow
async def asks(ctx: Context) -> bool:
    """Wait for a person."""
    return bool(await ctx.approval("Send it?"))


@app.flow
async def pays(ctx: Context) -> str:
    """Act."""
    return await ctx.effect(pay, "x")


@app.flow
async def fickle(ctx: Context) -> Any:
    """Ask for something else once the code has changed."""
    await ctx.step(other if CHANGED[0] else look, "x")
    return await ctx.receive("go")


@app.flow
async def spends(ctx: Context) -> None:
    """Want more than there is."""
    async with ctx.budget.reserve(3):
        await ctx.step(look, "x")


@app.flow
async def parent(ctx: Context) -> Any:
    """Wait for a child that waits."""
    return await ctx.join(await ctx.spawn("hears"))


@app.flow
async def wonders(ctx: Context) -> Any:
    """Ask a person something."""
    return await ctx.ask("Which one?")


@app.flow
async def calls(ctx: Context) -> Any:
    """Wait for another system."""
    return await ctx.callback("the bank")


@app.flow
async def follows(ctx: Context) -> Any:
    """Wait for something that is announced."""
    return await ctx.event("paid")


@app.flow
async def mails(ctx: Context) -> None:
    """Take more than a rate gives."""
    for _ in range(3):
        await ctx.rate("mail", limit=1, per=60)


@app.flow
async def reads(ctx: Context) -> int:
    """Have something large on record."""
    text = await ctx.step(look, LARGE)
    await ctx.receive("go")
    return len(text)


async def no_worker(lab: Lab, client: Client) -> str:
    """Nobody works."""
    del lab
    return (await client.start("echo", 1)).run_id


async def no_program(lab: Lab, client: Client) -> str:
    """A worker, of other programs."""
    await lab.worker()
    await lab.store.transact(runs.register, [("elsewhere", 1, "elsewhere.py")])
    return (await client.start("elsewhere")).run_id


async def no_version(lab: Lab, client: Client) -> str:
    """A worker, of an older version."""
    await lab.worker()
    await lab.store.transact(runs.register, [("echo", 9, "later.py")])
    return (await client.start("echo", 1)).run_id


async def no_tag(lab: Lab, client: Client) -> str:
    """A worker without the run's tag."""
    await lab.worker()
    return (await client.start("echo", 1, tag="gpu")).run_id


async def settled(lab: Lab, client: Client, program: str, **more: Any) -> str:
    """Start a run and let it come to where it stands; return its id."""
    run = (await client.start(program, **more)).run_id
    await lab.settle()
    return run


async def unknown(lab: Lab, client: Client) -> str:
    """The worker dies after the effect acted."""
    lab.crash(Place.ACTED)
    return await settled(lab, client, "pays")


async def diverged(lab: Lab, client: Client) -> str:
    """The code changes between two stretches."""
    run = await settled(lab, client, "fickle")
    CHANGED[0] = True
    await client.signal(run, "go")
    await lab.settle()
    return run


async def poison(lab: Lab, client: Client) -> str:
    """Three workers in a row die in it."""
    lab.crash(Place.ACTED, times=3)
    return await settled(lab, client, "echo", input=1)


async def unreadable(lab: Lab, client: Client) -> str:
    """A blob is gone."""
    run = await settled(lab, client, "reads")
    await lab.store.transact(lambda tx: raw(tx).execute("DELETE FROM blobs"))
    await client.signal(run, "go")
    await lab.settle()
    return run


async def lost(lab: Lab, client: Client) -> str:
    """Its worker is gone, its lease is over, and nobody takes it."""
    lab.crash(Place.ACTED)
    run = (await client.start("pays")).run_id
    await lab.worker()
    while lab.plan.left:
        await lab.change()
    await lab.kill()
    lab.advance(60)
    return run


async def let_go(lab: Lab, client: Client) -> str:
    """The store refuses what its worker wants to record, and the worker lives."""
    refuses = "CREATE TRIGGER refuses BEFORE INSERT ON journal BEGIN SELECT RAISE(ABORT, 'refused'); END"
    worker = await lab.worker()
    dropped = asyncio.Event()
    worker.on_event = lambda what, *_: dropped.set() if what == "lost" else None
    await lab.store.transact(lambda tx: raw(tx).execute(refuses))
    run = (await client.start("echo", "hello")).run_id
    await asyncio.wait_for(dropped.wait(), PATIENCE_SECONDS)
    await lab.store.transact(lambda tx: raw(tx).execute("DROP TRIGGER refuses"))
    return run


async def overdue(lab: Lab, client: Client) -> str:
    """No waker comes."""
    run = await settled(lab, client, "naps")
    lab.advance(timedelta(hours=2))
    return run


async def in_line(lab: Lab, client: Client) -> str:
    """Another run of its line holds the place."""
    await client.start("hears", line="ana")
    return await settled(lab, client, "hears", line="ana")


async def undelivered(lab: Lab, client: Client) -> str:
    """No waker comes for the outbox."""
    run = await settled(lab, client, "hears")
    await lab.drain()
    message = NewMessage(parse_run(run)[1], "go", "k", b"null")  # its sender's worker died right after the commit
    await lab.store.transact(lambda tx: tx.add_messages([(message.target, message)]))
    return run


SCENES: dict[str, Callable[[Lab, Client], Awaitable[str]]] = {
    "no worker": no_worker,
    "no worker for its program": no_program,
    "no worker for its version": no_version,
    "no worker for its tag": no_tag,
    "an approval": lambda lab, client: settled(lab, client, "asks"),
    "an unknown effect": unknown,
    "diverged": diverged,
    "poison": poison,
    "unreadable": unreadable,
    "its budget": lambda lab, client: settled(lab, client, "spends", budget=1),
    "a worker that is silent": lost,
    "a worker that let it go": let_go,
    "a time": lambda lab, client: settled(lab, client, "naps"),
    "a time that is past": overdue,
    "a message": lambda lab, client: settled(lab, client, "hears"),
    "a message on its way": undelivered,
    "a question": lambda lab, client: settled(lab, client, "wonders"),
    "a callback": lambda lab, client: settled(lab, client, "calls"),
    "an event": lambda lab, client: settled(lab, client, "follows"),
    "a rate": lambda lab, client: settled(lab, client, "mails"),
    "a child": lambda lab, client: settled(lab, client, "parent"),
    "its line": in_line,
    "failed": lambda lab, client: settled(lab, client, "breaks"),
}


class Row(NamedTuple):
    """A row of the table."""

    name: str
    says: str
    subject: str
    way: str


def table() -> dict[str, Row]:
    """Read the table."""
    part = PAGE.read_text("utf-8").split(HEADING)[1].split("\n## ")[0]
    lines = [line.strip("|").split(" | ") for line in part.splitlines() if line.startswith("| ")][1:]
    return {row.name: row for row in (Row(*(cell.strip(" |`") for cell in cells)) for cells in lines)}


def test_the_table_is_whole() -> None:
    """Each state of the table has its scene, and each scene its row."""
    assert set(table()) == set(SCENES)


@pytest.mark.parametrize("name", SCENES)
def test_it_is_named(name: str) -> None:
    """The list says why, the doctor has a line about it with the next step, and the table says the way on."""
    row = table()[name]
    CHANGED[0] = False

    async def main() -> None:
        async with Lab(app, name="w1") as lab:
            client = Client(lab.store)
            run = await SCENES[name](lab, client)
            line = await client.get(run)
            said = f"{line.shown}: {line.reason}"
            assert row.says.strip("`").rstrip(".") in said, said
            found = await client.doctor()
            about = [one for one in found.lines if one.subject == row.subject]
            assert about or row.subject == "-", found.lines
            if row.subject not in {"-", "timers"} or name == "a time that is past":
                assert [one for one in about if one.level != "ok" and one.hint], about

    asyncio.run(main())
    assert row.way
