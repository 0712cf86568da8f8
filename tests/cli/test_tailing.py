"""tail: what a run emits, for people and for programs."""

from __future__ import annotations

import asyncio
import json
import os
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.shell import CTRL_C
from torpor.cli.screen import Screen
from torpor.cli.tailing import Teller
from torpor.client import Client, Part
from torpor.engine.runs import register
from torpor.runtime import Process, load_app, opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.shell import Shell, Terminal

pytestmark = pytest.mark.slow

TELLER = '''"""An app that speaks."""

from __future__ import annotations

import asyncio
from pathlib import Path

from torpor import App, Context, EffectContext
from torpor.core.retry import RetryPolicy

app = App()


@app.step(retries=RetryPolicy(retries=1, first_seconds=0.0))
async def write(ctx: EffectContext) -> str:
    ctx.emit("Dear Bob" if ctx.attempt == 1 else "Dear Ana,\\n\\x1b[2Jit is on its way.")
    if ctx.attempt == 1:
        await asyncio.to_thread(Path(__file__).with_name("read").read_text)  # a pipe: somebody has read it
        raise OSError("the provider hung up")
    return "written"


@app.flow
async def tells(ctx: Context) -> str:
    ctx.emit("> ")
    await ctx.step(write)
    ctx.emit({"letters": 3})
    ctx.show({"progress": 1})
    return "told"


@app.flow
async def pauses(ctx: Context) -> str:
    ctx.emit("thinking")
    ctx.show({"progress": 0.5})
    return await ctx.receive("go")
'''


@pytest.fixture
def told(shell: Shell) -> dict[str, str]:
    """Return the ids of a run that has ended and of one that waits, both with streams, in the shell's store."""
    (shell.folder / "teller.py").write_text(TELLER, "utf-8")
    pipe = shell.folder / "read"
    os.mkfifo(pipe)

    async def read(client: Client, run: str) -> None:
        async for part in client.stream(run):
            if part.body == "Dear Bob":
                await asyncio.to_thread(pipe.write_text, "yes")
                return

    async def fill() -> dict[str, str]:
        app = load_app(str(shell.folder / "teller.py"))
        async with opened(f"sqlite:///{shell.folder / 'torpor.db'}") as store:
            await store.transact(register, [(flow.name, flow.version, flow.source) for flow in app.flows.values()])
            client = Client(store)
            ids = {name: (await client.start(name)).run_id for name in ("tells", "pauses")}
            reading = asyncio.create_task(read(client, ids["tells"]))
            await Process(store, app, name="w1", until_idle=True).run()
            await reading
        return ids

    return asyncio.run(fill())


def test_what_is_kept_is_shown(shell: Shell, told: dict[str, str]) -> None:
    """Without -f: the kept text, values on lines of their own, nothing that drives a terminal."""
    done = shell.run("tail", told["tells"])
    assert (done.code, done.err) == (0, "")
    assert done.out == '> Dear Ana,\n\\x1b[2Jit is on its way.\n{"letters": 3}\n'
    assert shell.run("tail", told["pauses"]).out == "thinking\n"


def test_what_was_taken_back_is_said(shell: Shell, told: dict[str, str]) -> None:
    """With -f text stands as it came, and a dropped attempt is taken back in words; it ends with the run."""
    done = shell.run("tail", "-f", told["tells"])
    assert done.code == 0
    assert done.out.splitlines() == [
        "> Dear Bob",
        '[8 characters taken back: "Dear Bob"]',
        "Dear Ana,",
        "\\x1b[2Jit is on its way.",
        '{"letters": 3}',
    ]
    later = shell.run("tail", "-f", told["tells"], "--after", "2").out.splitlines()
    assert later[0] == "[taken back: part 2]"


def test_calls_are_told_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    """A call that failed is marked, and one that is taken back is named; if it is not known, its number is."""
    parts: list[Any] = [{"tool": "pay", "call": "1/0", "args": {"usd": 3}}, [[1, 1]]]
    parts += [
        {"tool": "pay", "call": "1/0", "failed": "no funds"},
        {"tool": "pay", "call": "1/1", "retry": "no"},
        [[9, 9]],
    ]
    teller = Teller(Screen.of())
    for n, body in enumerate(parts, 1):
        teller.take(Part(n, "retract" if isinstance(body, list) else "value", body, 0))
    assert capsys.readouterr().out.splitlines() == [
        "  pay usd=3",
        "[taken back: pay usd=3; what follows replaces it]",
        '  pay   failed: "no funds"',
        "  pay   again: no",
        "[taken back: part 9]",
    ]


def test_lines_for_programs(shell: Shell, told: dict[str, str]) -> None:
    """One JSON document a line, the numbers to come back with, moments in UTC."""
    done = shell.run("tail", told["tells"], "--json")
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [set(line) for line in lines] == [{"n", "kind", "body", "at"}] * len(lines)
    assert [line["n"] for line in lines] == list(range(1, len(lines) + 1))
    assert [line["kind"] for line in lines] == ["text", "text", "retract", "text", "value"]
    assert lines[2]["body"] == [[2, 2]]
    assert all(line["at"].endswith("Z") for line in lines)
    assert shell.run("tail", told["tells"], "--json", "--after", "4").out.splitlines() == done.out.splitlines()[4:]
    assert shell.run("tail", told["tells"], "-f", "--json").out == done.out


def test_what_was_pruned_is_said(shell: Shell, told: dict[str, str]) -> None:
    """Whoever reads from before it is told which parts are gone, when and by whom; whoever has seen them is not."""
    run = told["pauses"]
    gone = shell.ok("prune", "--older-than", "0s", "--layer", "stream", "--by", "ana")
    assert (gone["streams"], gone["parts"], gone["runs"]) == (2, 6, 0)
    assert re.fullmatch(r"\[Part 1 was pruned on \d+ \w{3} by ana\.\]\n", shell.run("tail", run).out)
    told_of = shell.run("tail", "-f", told["tells"], "--after", "2").out
    assert re.fullmatch(r"\[Parts 3-5 were pruned on \d+ \w{3} by ana\.\]\n", told_of)
    assert shell.run("tail", run, "--after", "1").out == ""
    [line] = [json.loads(line) for line in shell.run("tail", run, "--json").out.splitlines()]
    assert (line["n"], line["kind"], line["body"]) == (1, "pruned", {"from": 1, "to": 1, "why": "ana"})
    assert "  pruned   Part 1 was pruned on" in shell.run("show", run).out


def test_ctrl_c_leaves_the_run_alone(shell: Shell, told: dict[str, str], terminal: Callable[..., Terminal]) -> None:
    """It says so, and how to go on from there."""
    run = told["pauses"]
    screen = terminal("tail", "-f", run)
    screen.until("thinking")
    screen.type(CTRL_C)
    code, said = screen.end()
    assert code == 130
    assert f"{run} is left alone and goes on" in said
    assert f"next: torpor tail -f {run} --after 1" in said
    assert shell.ok("show", run)["line"]["state"] == "waiting"


def test_show_has_the_view(shell: Shell, told: dict[str, str]) -> None:
    """What the run shows of itself, and that there is a stream."""
    assert shell.ok("show", told["pauses"])["view"] == {"progress": 0.5}
    out = shell.run("show", told["tells"]).out
    assert f"emitted  5 parts: torpor tail {told['tells']}" in out
    assert '"progress": 1' in out


def test_silence_is_said(shell: Shell, told: dict[str, str]) -> None:
    """Nothing on standard output, and a word beside it, so that nobody wonders; nothing at all for programs."""
    quiet = shell.run("tail", told["tells"], "--after", "5")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", f"{told['tells']} has emitted nothing after part 5\n")
    assert shell.run("tail", told["tells"], "--after", "5", "--json").err == ""
    assert shell.run("tail", told["tells"]).err == ""


def test_a_run_that_is_not_there(shell: Shell, told: dict[str, str]) -> None:
    """Not found, and a number that makes no sense, as everywhere."""
    assert shell.run("tail", "-f", "tells-7Q3D", "--json").problem["type"] == "NotFound"
    assert shell.run("tail", told["tells"], "--after", "-1").code == 2
