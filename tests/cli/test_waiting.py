"""Questions, edits, callbacks and events on the command line."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING

import pytest

from torpor.client import Client
from torpor.engine.runs import register
from torpor.runtime import Process, load_app, opened

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.shell import Shell, Terminal

pytestmark = pytest.mark.slow
DESK = '''"""An app that waits for everything."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from torpor import App, Context

app = App()


@app.flow
async def asks(ctx: Context) -> object:
    text = await ctx.ask("What now?")
    choice = await ctx.ask("Which?", choices=["the first", 2])
    number = await ctx.ask("How many?", schema={"type": "integer", "minimum": 1})
    return [text.value, choice.value, number.value]


@app.flow
async def edits(ctx: Context) -> object:
    show = {"to": "ana", "usd": Decimal("40.00"), "id": 10**30, "n": 1}
    answer = await ctx.approval("Send?", show=show, editable=True)
    return answer.value


@app.flow
async def calls(ctx: Context) -> object:
    callback = ctx.callback("the bank")
    await ctx.step(Path("token").write_text, callback.token)
    return await callback


@app.flow
async def hears(ctx: Context) -> object:
    return await ctx.event("paid", where={"order": 1})
'''


def work(folder: Path, *start: str) -> list[str]:
    """Start runs, if any, and work until nothing is left to do; return their ids."""
    (folder / "desk.py").write_text(DESK, "utf-8")

    async def main() -> list[str]:
        app = load_app(str(folder / "desk.py"))
        async with opened(f"sqlite:///{folder / 'torpor.db'}") as store:
            await store.transact(register, [(flow.name, flow.version, flow.source) for flow in app.flows.values()])
            started = [await Client(store).start(program) for program in start]
            await Process(store, app, name="w1", until_idle=True).run()
        return [one.run_id for one in started]

    return asyncio.run(main())


def open_wait(shell: Shell) -> str:
    """Return the one open wait."""
    [item] = shell.ok("inbox")["items"]
    return str(item["wait"])


def test_a_question_is_answered(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """As text, as a choice, as JSON; what does not fit is refused, says what would, and leaves it open."""
    monkeypatch.chdir(shell.folder)
    [run] = work(shell.folder, "asks")
    shown = shell.run("inbox").out
    assert "answer" in shown
    assert "What now?" in shown
    wait = open_wait(shell)
    assert f"next: torpor answer {wait} TEXT" in shell.run("inbox", wait).out
    assert "needs you: answer What now?" in shell.run("ps").out
    assert shell.ok("answer", wait, "42", "--by", "ana")["decision"] == "answered"
    work(shell.folder)

    wait = open_wait(shell)
    shown = shell.run("inbox", wait).out
    assert f"torpor answer {wait} 'the first'" in shown
    assert f"torpor answer {wait} 2" in shown
    assert (
        f"torpor answer {wait} 'the first'   or   torpor answer {wait} 2"
        in shell.run("answer", wait, "--fail", "x").err
    )
    wrong = shell.run("answer", wait, "the second")
    assert wrong.code == 2
    assert f'{wait} still waits: "the second" is not a choice; allowed: "the first", 2' in wrong.err
    assert "exactly one of VALUE" in shell.run("answer", wait, "2", "--again").err
    shell.ok("answer", wait, "2", "--by", "ana")
    assert shell.run("answer", wait, "2", "--by", "ben").code == 4
    work(shell.folder)

    wait = open_wait(shell)
    assert re.search(rf"torpor answer {wait} 10 +# a whole number, 1 or more", shell.run("inbox", wait).out)
    assert shell.run("answer", wait, "0").code == 2
    assert shell.run("approve", wait, "--yes").code == 2
    shell.ok("answer", wait, "7", "--by", "ana")
    work(shell.folder)
    document = shell.ok("show", run)
    assert document["result"] == ["42", 2, 7]
    told = shell.run("show", run).out
    assert "answer What now?" in told
    assert 'ana: "42"' in told


def test_an_approval_is_edited(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --set and in an editor; digits and types stay."""
    monkeypatch.chdir(shell.folder)
    runs = work(shell.folder, "edits", "edits")
    first, second = (item["wait"] for item in shell.ok("inbox")["items"])
    for words, says in [
        (["--set", "usd"], "is no edit"),
        (["--set", "usd=much"], "usd: 'much' is no decimal"),
        (["--set", "n=many"], "n: 'many' is in the place of 1"),
        (["--edit"], "no editor is set"),
    ]:
        done = shell.run("approve", first, *words, EDITOR="", VISUAL="")
        assert done.code == 2, done
        assert says in done.err
    assert f"torpor approve {first} --edit" in shell.run("inbox", first).out
    edits = ("--set", "usd=12.5", "--set", f"id={10**30 + 1}")
    digest = shell.ok("inbox", first)["digest"]
    unseen = shell.run("approve", first, *edits)
    assert (unseen.code, unseen.err.splitlines()) == (
        2,
        [
            f"error: {first} would be approved unseen: Send?",
            f"hint: torpor approve {first} --set usd=12.5 --set id={10**30 + 1} --digest {digest}",
        ],
    )
    assert shell.run("approve", second, "--edit", EDITOR="sed -i s/ana/ben/").code == 2
    assert len(shell.ok("inbox")["items"]) == 2
    assert shell.run("approve", first, *edits, "--digest", "00ff").code == 4
    done = shell.run("approve", first, *edits, "--digest", digest, "--by", "ana")
    assert (done.code, done.out.splitlines()[0]) == (0, f"{first} edited and approved, by ana")
    done = shell.run("approve", second, "--edit", "--yes", "--by", "ana", EDITOR="sed -i s/ana/ben/")
    assert (done.code, done.out.splitlines()[0]) == (0, f"{second} edited and approved, by ana"), done
    work(shell.folder)
    found = {json.dumps(shell.ok("show", run)["result"]) for run in runs}
    assert found == {
        json.dumps({"to": "ana", "usd": "12.5", "id": str(10**30 + 1), "n": 1}),
        json.dumps({"to": "ben", "usd": "40.00", "id": str(10**30), "n": 1}),
    }
    assert "edited and approved by ana" in shell.run("show", runs[0]).out


def test_an_edit_is_shown_before_consent(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, terminal: Callable[..., Terminal]
) -> None:
    """On a terminal: all of it, what is changed beside what was there, and a question; what does not fit asks nothing."""
    monkeypatch.chdir(shell.folder)
    [run] = work(shell.folder, "edits")
    wait = open_wait(shell)
    code, rest = terminal("approve", wait, "--set", "usd=much").end()
    assert (code, "is no decimal" in rest, "[y/N]" in rest) == (2, True, False)
    for key, expected in (("\n", 1), ("y\n", 0)):
        going = terminal("approve", wait, "--set", "usd=12.5", "--by", "ana")
        shown = re.sub(r"\x1b\[[0-9;]*m", "", going.until("approve Send? as edited [y/N] "))
        assert '"to": "ana"' in shown
        assert re.search(r"usd +12\.5\r\n +was 40\.00\r\n", shown), shown
        going.type(key)
        assert going.end()[0] == expected
    work(shell.folder)
    assert shell.ok("show", run)["result"]["usd"] == "12.5"


def test_a_callback_and_an_event(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answered by token; published to who waits; `ps` says what they sleep for."""
    monkeypatch.chdir(shell.folder)
    called, heard = work(shell.folder, "calls", "hears")
    listed = shell.run("ps").out
    assert "asleep: callback the bank" in listed
    assert "asleep: event paid order=1" in listed
    token = (shell.folder / "token").read_text("utf-8")
    assert shell.run("answer", token[:-2], "1").code == 3
    assert shell.run("answer", token, "--again").code == 2
    assert shell.ok("answer", token, '{"yes": 1}') == {"run": called, "new": True}
    assert "already handled" in shell.run("answer", token, "2").out
    assert shell.ok("signal", "--event", "paid", '{"order": 2}')["reached"] == 0
    assert shell.ok("signal", "--event", "paid", '{"order": 1}', "--key", "k") == {
        "event": "paid",
        "new": True,
        "reached": 1,
        "going": False,
    }
    assert "with this key came before" in shell.run("signal", "--event", "paid", '{"order": 1}', "--key", "k").out
    assert shell.run("signal", heard).code == 2
    assert shell.run("signal", "1", "name", "--event", "paid").code == 2
    work(shell.folder)
    assert shell.ok("show", called)["result"] == {"yes": 1}
    assert shell.ok("show", heard)["result"] == {"order": 1}
