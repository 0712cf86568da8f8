"""The same bad input for each command and kind of wait, on a file and on a server: the same words, and nothing is lost."""

from __future__ import annotations

import asyncio
import io
import re
import secrets
from contextlib import chdir, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.cli.shell import Done
from torpor.cli.main import main
from torpor.client import Client
from torpor.engine.runs import register
from torpor.runtime import Process, load_app, opened
from torpor.store.postgres import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

APP = '''"""An app of which a run stands at everything that can be answered wrongly."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from torpor import App, Context, hours

app = App()


class Place(BaseModel):
    """An answer with a schema."""

    street: str
    number: int


@app.effect
async def pay(order: str) -> str:
    raise OSError("torn")


@app.flow
async def approves(ctx: Context, seconds: float) -> bool:
    return bool(await ctx.approval("Send it?", show={"usd": 5}, expires=seconds))


@app.flow
async def places(ctx: Context) -> Place:
    return (await ctx.ask("Where?", schema=Place)).value


@app.flow
async def picks(ctx: Context) -> Any:
    return (await ctx.ask("Which?", choices=["a", "b"])).value


@app.flow
async def torn(ctx: Context) -> str:
    return await ctx.effect(pay, "88121")


@app.flow
async def hook(ctx: Context) -> Any:
    return await ctx.callback("payment")


@app.flow
async def paid(ctx: Context) -> Any:
    return await ctx.event("order.paid", where={"order": 881})


@app.flow
async def hears(ctx: Context, name: str) -> Any:
    return await ctx.receive(name)


@app.flow
async def naps(ctx: Context) -> None:
    await ctx.sleep(hours(9))


@app.flow
async def limited(ctx: Context, n: int) -> None:
    await ctx.rate("mail", limit=1, per=hours(9))
    await ctx.rate("mail", limit=1, per=hours(9))


@app.flow
async def costs(ctx: Context) -> None:
    async with ctx.budget.reserve(7) as held:
        await held.settle(7)


@app.flow
async def family(ctx: Context) -> Any:
    return await ctx.join(await ctx.spawn("hears", "child"))


@app.flow
async def circle(ctx: Context, parent: str) -> Any:
    if parent:
        return await ctx.join(parent)
    return await ctx.join(await ctx.spawn("circle", "circle-0000"))


@app.flow
async def turns(ctx: Context, n: int) -> Any:
    if n > 3:
        return await ctx.receive("more")
    return ctx.again(n + 1)


@app.flow
async def breaks(ctx: Context) -> float:
    return 1 / 0


@app.flow
async def ends(ctx: Context) -> str:
    return "done"
'''
STARTED: dict[str, tuple[str, object]] = {
    "open": ("approves", 9e6),
    "expired": ("approves", 0.001),
    "decided": ("approves", 9e6),
    "circle": ("circle", ""),
    "limited": ("limited", 1),
    "hears": ("hears", "go"),
    "turns": ("turns", 1),
    **{
        name: (name, None)
        for name in ("places", "picks", "torn", "hook", "paid", "naps", "costs", "family", "breaks", "ends")
    },
}
GONE = "ends-0000"
ODD = """
approve OPEN
approve OPEN --digest 00ff
approve OPEN --yes --set usd={
approve OPEN --yes --set nothing=1
approve EXPIRED --yes
deny EXPIRED no
approve DECIDED --yes
deny DECIDED no
answer OPEN 1
answer OPEN --happened 1
answer OPEN --raise 1
answer PLACES {"street":3}
answer PLACES {"street":"a","number":1.5}
answer PLACES {"street":"a"}
answer PLACES [
answer PICKS c
answer PICKS --again
approve PICKS --yes
answer TORN 1
answer TORN --happened {
answer TORN --again --fail no
answer TORN --raise 5
answer TORN
answer HOOK {
answer HOOK --again
approve HOOK --yes
answer cb_AAAA 1
answer cb_ 1
answer PAID 1
answer HEARS 1
answer NAPS 1
answer LIMITED 1
answer FAMILY 1
answer COSTS --raise -5
answer COSTS --raise nan
answer COSTS --raise 1e30
answer COSTS 5
answer COSTS --again
answer w-0000-1 1
answer w-7q3d-99 1
answer nonsense 1
inbox w-0000-1
inbox HEARS
signal ends-0000 go 1
signal run:ends go 1
signal run:hears go {
signal run:hears
signal run:hears go 1 --key=
signal run:hears ~mine 1
signal --event order.paid {
signal --event order.paid 1 --key=
signal run:hears go --interrupt
signal run:ends --interrupt
cancel ends-0000
cancel nonsense!
show ends-0000
show run:ends --entries 0
tail ends-0000
tail run:ends --after -1
retry run:ends
retry run:hears
retry ends-0000
fork run:ends
fork run:ends --at 1 --yes
fork run:ends --at 99 --yes
fork run:ends --at -1 --yes
fork run:hears --at 1 --yes
rewind run:ends --at 0 --yes
rewind run:turns --at 0 --yes
rewind run:turns --at 1 --yes
rewind run:turns --at 99 --yes
fork run:turns --at 0 --yes
start nobody
start hears {
start hears "go" --budget -1
start hears "go" --budget much
start hears "go" --budget 0
start hears "go" --tenant-budget -5
start hears "go" --program-budget nan
start hears "go" --at 2026-02-30T10:00
start hears "go" --at yesterday
start hears "go" --deadline -2h
start hears "go" --deadline 2026-13-01
start hears "go" --priority 99999
start hears "go" --priority 1.5
start hears "go" --key ~mine
start hears "go" --key=
start hears "go" --line ana --line-limit 0
schedules nightly
schedules nightly --program hears --cron 99 * * * *
schedules nightly --program hears --cron 0 0 30 2 *
schedules nightly --program hears --cron * * *
schedules nightly --program hears --cron x
schedules nightly --program hears --every -1
schedules nightly --program hears --every 0
schedules nightly --program nobody --every 60
schedules nightly --program hears --every 60 --zone Mars/Olympus
schedules nightly --program hears --every 60 --missed sometimes
schedules nightly --pause --resume
schedules --pause
ps --state asleep
ps --limit 0
ps --before ends-0000
ps --program nobody
prune --older-than soon
prune --older-than -1d
prune --layer leaves
prune --program nobody
migrate now
doctor --what
"""


def shout(folder: Path, url: str, words: list[str]) -> Done:
    """Run a command in this process on a store."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORPOR_STORE", url)
        patch.setenv("TORPOR_BY", "ana")
        with chdir(folder), redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as end:
            main(words)
    return Done(int(end.value.code or 0), out.getvalue(), err.getvalue())


def fill(folder: Path, url: str) -> dict[str, str]:
    """Bring runs to where they can be answered wrongly; return their ids, and those of their waits in capitals."""

    async def start() -> dict[str, str]:
        app = load_app(str(folder / "odd.py"))
        async with opened(url) as store:
            await store.transact(register, [(flow.name, flow.version, flow.source) for flow in app.flows.values()])
            client = Client(store)
            ids = {
                name: (await client.start(program, value, budget=5 if name == "costs" else None)).run_id
                for name, (program, value) in STARTED.items()
            }
            await Process(store, app, name="w1", until_idle=True).run()
            for name, run in list(ids.items()):
                waits = (await client.get(run)).waits
                if waits:
                    ids[name.upper()] = waits[0].wait
            entry = next(line.seq for line in (await client.show(ids["expired"])).lines if "Send it?" in line.what)
            ids["EXPIRED"] = f"w-{ids['expired'].split('-')[1].lower()}-{entry}"
            await client.approve(ids["DECIDED"], by="ben")
        return ids

    ids = asyncio.run(start())
    pruned = shout(folder, url, ["prune", "--older-than", "0s", "--layer", "journal", "--program", "turns"])
    assert pruned.code == 0, pruned
    return ids


def words_of(line: str, ids: dict[str, str]) -> list[str]:
    """Return a line's words; a cron line is one word."""
    found = [
        ids.get(word.removeprefix("run:"), word) if word.isupper() or word.startswith("run:") else word
        for word in line.split(" ")
    ]
    if "--cron" in found:
        place = found.index("--cron") + 1
        found[place:] = [" ".join(found[place:])]
    return found


def told(done: Done, ids: dict[str, str]) -> tuple[int, str]:
    """Return what was said, with names in the place of ids and moments."""
    text = done.err
    for name, run in ids.items():
        text = text.replace(run, f"<{name}>").replace(run.upper(), f"<{name}>")
    return done.code, re.sub(r"\d+ (second|minute)s? ago|on \d+ \w{3}|line \d+, column \d+", "<then>", text)


@pytest.fixture
def server(server_url: Callable[[str], str]) -> Iterator[str]:
    """Return the URL of an empty store on a server, on the server's own clock."""
    schema = f"odd_{secrets.token_hex(6)}"
    url = f"{server_url('postgres')}?schema={schema}"
    store = PostgresStore(url)
    store.migrate()
    store.close_now()
    yield url
    with psycopg.connect(server_url("postgres"), autocommit=True) as admin:
        admin.execute(f"DROP SCHEMA {schema} CASCADE".encode())


def test_bad_input_says_the_same_everywhere(tmp_path: Path, server: str) -> None:
    """A line, a hint, an exit code of its own; no defect; both stores say it in the same words, and no run has moved."""
    (tmp_path / "odd.py").write_text(APP, "utf-8")
    said: list[dict[str, tuple[int, str]]] = []
    for url in (f"sqlite:///{tmp_path / 'odd.db'}", server):
        ids = fill(tmp_path, url)
        before = _states(url, ids)
        lines = ODD.strip().splitlines()
        said.append({line: told(shout(tmp_path, url, words_of(line, ids)), ids) for line in lines})
        assert _states(url, ids) == before
    assert said[0] == said[1]
    odd = {
        line: found for line, found in said[0].items() if found[0] not in {2, 3, 4} or len(found[1].splitlines()) != 2
    }
    assert odd == {}
    assert [line for line, (_, text) in said[0].items() if "defect" in text or "Error:" in text] == []


def _states(url: str, ids: dict[str, str]) -> dict[str, tuple[str, int]]:
    async def read() -> dict[str, tuple[str, int]]:
        async with opened(url) as store:
            client = Client(store)
            shown = {name: await client.show(run) for name, run in ids.items() if name.islower()}
            return {name: (one.line.state, one.head) for name, one in shown.items()}

    return asyncio.run(read())
