"""`torpor run` with an agent: what it says is shown, what it asks is asked here, and the same command goes on with it."""

from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.emulator import Emulator
from tests.cli.shell import CTRL_C

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cli.shell import Shell, Terminal

pytestmark = pytest.mark.slow

CTRL_D = "\x04"
COLUMNS = 100
DESK = '''"""Agents for the tests of `torpor run`."""

import asyncio
import os

from pydantic import BaseModel
from pydantic_ai import Agent, ToolCallPart, ToolOutput

from torpor import App
from torpor.testing import Script, call

app = App()


@app.tool(safety="keyed", approve=True)
def refund(order: str, usd: float) -> str:
    """Give money back."""
    return f"re_{order} {usd}"


@app.tool(safety="repeatable")
def look_up(order: str) -> str:
    """Return what is known about an order."""
    print("looked up", order)
    return f"order {order}: 40.00 dollars, paid"


async def released() -> None:
    """Stop in the middle until there is something in the pipe; it stays there, for whoever comes to this place again."""
    pipe, something = os.open("go", os.O_RDWR | os.O_NONBLOCK), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(pipe, something.set)
    try:
        await something.wait()
    finally:
        loop.remove_reader(pipe)
        os.close(pipe)


LOOK = ["Let me see. ", call("look_up", order="88121")]
GIVE = call("refund", order="88121", usd=40.0)
app.agent("support", Agent(Script(LOOK, GIVE, "I have given it back."), tools=[refund, look_up]))
app.agent("talk", Agent(Script("Hello, who is it?", "Nice to meet you.", "Bye.")), conversation=True)
app.agent("slow", Agent(Script(["Half of ", released, "the answer."])))




def echo(messages, info):
    """Say what was said."""
    return ToolCallPart("final_result", {"response": messages[0].parts[0].content})


app.agent("echo", Agent(Script(echo), output_type=[ToolOutput(list[str] | str)]))


class Sum(BaseModel):
    usd: float


app.agent("typed", Agent(Script(call("final_result", usd=4.5)), output_type=Sum))
'''
BOSS = """
helper = app.agent("helper", Agent(Script(GIVE, "helped"), tools=[refund]))
app.agent("boss", Agent(Script(call("helper", prompt="go"), "done"), tools=[app.delegate(helper)]))
"""
"""An agent that hands something on to another one, which asks."""


@pytest.fixture
def desk(shell: Shell) -> Iterator[Shell]:
    """Give a shell in a folder whose only app is `desk.py`; the pipe there is kept, with what is in it."""
    (shell.folder / "shop.py").unlink()
    (shell.folder / "desk.py").write_text(DESK, "utf-8")
    os.mkfifo(shell.folder / "go")
    pipe = os.open(shell.folder / "go", os.O_RDWR | os.O_NONBLOCK)
    yield shell
    os.close(pipe)


def stands(text: str) -> str:
    """Return what stands on a terminal to which this was written."""
    return Emulator(COLUMNS, 24).feed(text).text


def release(desk: Shell) -> None:
    """Let an answer go on that stopped in the middle."""
    (desk.folder / "go").write_bytes(b".")


def test_an_approval_is_typed(desk: Shell, terminal: Callable[..., Terminal]) -> None:
    """Text, tool lines, the bound arguments as a table; approved, it acts; the answer stands there once."""
    going = terminal("run", "support", "refund order 88121", "--by", "ada")
    shown = going.until("[y]es, [n]o, [e]dit ")
    going.type("y\n")
    code, rest = going.end()
    found = stands(shown + rest)
    assert code == 0
    assert found.count("I have given it back.") == 1
    assert re.search(r"\n  order  88121\n  usd    40.0\napprove refund\? \[y\]es, \[n\]o, \[e\]dit y\n", found), found
    assert '  ✓ look_up order=88121   "order 88121: 40.00 dollars, paid"' in found
    assert '  ✓ refund order=88121 usd=40.0   "re_88121 40.0"' in found
    assert "looked up 88121\n" in found
    run = desk.ok("ps", "--all")["runs"][0]
    assert (run["state"], run["program"]) == ("completed", "support")


@pytest.mark.usefixtures("desk")
def test_what_is_edited_field_by_field_runs(terminal: Callable[..., Terminal]) -> None:
    """Without an editor each field is asked for; what does not fit is asked again; the change is shown before consent."""
    going = terminal("run", "support", "refund order 88121")
    going.until("[e]dit ")
    going.type("e\n")
    going.until("order [88121] ")
    going.type("\n")
    going.until("usd [40.0] ")
    going.type("many\n")
    assert "usd is not JSON" in going.until("usd [40.0] ")
    going.type('"20"\n')
    shown = stands(going.until("as edited [y]es, [n]o, [e]dit "))
    assert re.search(r'usd +"20"\n +was 40\.0\n', shown), "a text in the place of a number looks like one"
    assert "still waits: usd:" in shown
    for _ in range(2):  # what was shown first is not consented to by a yes to what was made of it
        going.type("y\n")
        assert "still waits: usd:" in going.until("approve refund? as edited [y]es, [n]o, [e]dit ")
    going.type("e\n")
    going.until("order [88121] ")
    going.type("\n")
    going.until('usd ["20"] ')
    going.type("20\n")
    shown = stands(going.until("as edited [y]es, [n]o, [e]dit "))
    assert re.search(r"usd +20\n +was 40\.0\n", shown), shown
    going.type("y\n")
    code, rest = going.end()
    assert code == 0
    assert "re_88121 20" in rest


@pytest.mark.usefixtures("desk")
def test_an_edit_that_is_taken_back_is_shown(terminal: Callable[..., Terminal]) -> None:
    """Whoever types what was there before sees what a yes is about: what was asked, not what was made of it."""
    going = terminal("run", "support", "refund order 88121")
    shown = going.until("[e]dit ")
    for usd in ("20", "40.0"):
        going.type("e\n")
        going.until("order [88121] ")
        going.type("\n")
        going.until("usd [")
        going.type(f"{usd}\n")
        shown = stands(going.until("[e]dit "))
    assert re.search(r"nothing is changed\n.*\n  order  88121\n  usd    40\.0\napprove refund\? \[y", shown), shown
    going.type("y\n")
    assert "re_88121 40.0" in going.end()[1]


def test_a_denial_has_a_reason(desk: Shell, terminal: Callable[..., Terminal]) -> None:
    """What was typed before the question stood there is no answer to it; no asks why; the model goes on."""
    going = terminal("run", "support", "refund order 88121", "--by", "ada")
    going.type("y\n")
    going.until("[e]dit ")
    going.type("\n")
    going.until("[e]dit ")
    going.type("n\n")
    going.until("why? ")
    going.type("wrong order\n")
    code, rest = going.end()
    assert (code, "re_88121" in rest) == (0, False)
    told = desk.ok("show", desk.ok("ps", "--all")["runs"][0]["run"])["lines"]
    assert "denied by ada: wrong order" in [line["outcome"] for line in told]


def test_somebody_else_is_first(desk: Shell, terminal: Callable[..., Terminal]) -> None:
    """The question is withdrawn with who decided it, and the run goes on."""
    going = terminal("run", "support", "refund order 88121")
    going.until("[e]dit ")
    (item,) = desk.ok("inbox")["items"]
    assert desk.run("approve", item["wait"], "--yes", "--by", "ben").code == 0
    going.until("ben approved")
    code, rest = going.end()
    assert (code, rest.count("I have given it back.")) == (0, 1)


def test_ctrl_c_and_the_same_command(desk: Shell, terminal: Callable[..., Terminal]) -> None:
    """Broken off in the middle of an answer: the same command takes the same run up, and the half answer is not there twice."""
    going = terminal("run", "slow", "hello", TORPOR_DRAIN_SECONDS="0.5")
    going.until("Half of")
    going.type(CTRL_C)
    code, rest = going.end()
    assert code == 130
    assert "waiting for the model that answers slow-" in rest
    assert "nothing of it is lost" in rest
    assert "next: torpor run slow hello" in rest
    (before,) = desk.ok("ps")["runs"]
    again = terminal("run", "slow", "hello")
    shown = again.until("Half of")
    release(desk)
    code, rest = again.end()
    found = stands(shown + rest)
    assert code == 0
    assert f"{before['run']} goes on: this command started it" in found
    assert found.endswith("\nHalf of the answer."), found
    (after,) = desk.ok("ps", "--all")["runs"]
    assert (after["run"], after["state"]) == (before["run"], "completed")


def test_the_same_command_after_the_end_and_a_new_one(desk: Shell) -> None:
    """A run that ended is left alone; `--new` leaves an open one; another person's is another one."""
    first = desk.run("run", "typed", "how much", "--by", "ada", "--json").document["run"]
    assert desk.run("run", "typed", "how much", "--by", "ada", "--json").document["run"] != first

    def opened(*more: str) -> str:
        done = desk.run("run", "support", "refund", *more)
        assert done.code == 5, done.err
        return re.search(r"support-\w+", done.err)[0]  # type: ignore[index]

    one = opened("--by", "ada")
    assert opened("--by", "ada") == one
    other = opened("--by", "ada", "--new")
    assert other != one
    assert opened("--by", "ada") == other
    assert opened("--by", "ben") not in {one, other}


def test_another_worker_is_killed(desk: Shell, terminal: Callable[..., Terminal]) -> None:
    """The run is seen while a worker elsewhere has it; when that is killed in the middle of an answer, the half is erased."""
    run = desk.run("start", "slow", '"hello"', "--app", "desk.py", "--key", "k").out.split()[0]
    with desk.going("worker", "desk.py") as worker, desk.going("tail", "-f", run) as tail:
        assert tail.stdout is not None
        assert tail.stdout.read(7) == "Half of"
        going = terminal("run", "slow", "hello", "--key", "k")
        shown = going.until("Half of")
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        shown += going.until("Half of")
        release(desk)
        code, rest = going.end()
    found = stands(shown + rest)
    assert code == 0
    erased = found.count("Half of") == 1  # unless a line of the log had come between, and nothing could be erased
    assert erased or "\n[taken back; what follows replaces it]\n" in found, found
    assert found.endswith("\nHalf of the answer.")


def test_a_conversation(desk: Shell, terminal: Callable[..., Terminal]) -> None:
    """At the prompt the next message is typed, pasted lines are one; Ctrl-D leaves, and the same command goes on."""
    going = terminal("run", "talk", "hello", "--by", "ada")
    going.until("> ")
    going.type("Ada\nfrom Leipzig\n")
    shown = going.until("Nice to meet you.")
    going.until("> ")
    going.type(CTRL_D)
    code, rest = going.end()
    assert code == 0
    assert "waits for what you say next; nothing of it is lost" in rest
    run = desk.ok("ps")["runs"][0]
    assert shown.count("Nice to meet you.") == 1
    again = terminal("run", "talk", "hello", "--by", "ada")
    shown = again.until("Nice to meet you.") + again.until("\n> ")
    found = stands(shown)
    assert "Hello, who is it?\n> Ada\nfrom Leipzig\nNice to meet you.\n" in found, found
    again.type("bye\n")
    again.until("Bye.")
    again.until("> ")
    again.type(CTRL_C)
    assert again.end()[0] == 130
    assert desk.ok("ps")["runs"][0]["turn"] == run["turn"] + 1


def test_what_was_said_from_elsewhere_is_shown(desk: Shell, terminal: Callable[..., Terminal]) -> None:
    """Once, before what it is answered, whether or not it was heard by the time that a terminal looks."""
    assert desk.run("run", "talk", "hello", "--by", "ada").code == 0
    run = desk.ok("ps")["runs"][0]["run"]
    assert desk.run("signal", run, "message", '"Ada"').code == 0
    going = terminal("run", "talk", "hello", "--by", "ada")
    found = stands(going.until("Nice to meet you.") + going.until("\n> "))
    assert "Hello, who is it?\n> Ada\n" in found, found
    assert found.count("> Ada") == 1


def test_a_conversation_without_a_terminal(desk: Shell) -> None:
    """The answer is the output; what is said next is a signal."""
    done = desk.run("run", "talk", "hello")
    assert (done.code, done.out) == (0, "Hello, who is it?\n")
    run = desk.ok("ps")["runs"][0]["run"]
    assert desk.run("signal", run, "message", '"Ada"').code == 0
    assert desk.run("run", "talk", "hello").out == "Nice to meet you.\n"
    assert desk.ok("run", "talk", "hello") == {"run": run, "state": "waiting", "result": "Nice to meet you."}


def test_without_a_terminal_everything_is_told_once(desk: Shell) -> None:
    """Plain lines on standard error; an approval stops it with exit code 5, and the same command goes on."""
    done = desk.run("run", "support", "refund order 88121")
    assert (done.code, done.out) == (5, "looked up 88121\n")
    assert '\n  ✓ look_up order=88121   "order 88121: 40.00 dollars, paid"\n' in done.err
    assert "Let me see.\n" in done.err
    assert "\x1b" not in done.err
    wait = re.search(r"hint: .*torpor approve (w-\S+)", done.err)
    assert wait is not None
    assert desk.run("approve", wait[1], "--yes").code == 0
    again = desk.run("run", "support", "refund order 88121")
    assert (again.code, again.out) == (0, "I have given it back.\n")
    assert "Let me see." not in again.err
    assert "I have given it back." not in again.err


def test_a_call_that_began_under_another_command_is_told_whole(desk: Shell) -> None:
    """The second command tells what its end belongs to, though the first one had told the beginning."""
    (desk.folder / "desk.py").write_text(DESK + BOSS, "utf-8")
    assert desk.run("run", "boss", "go").code == 5
    (item,) = desk.ok("inbox")["items"]
    assert desk.run("approve", item["wait"], "--yes").code == 0
    again = desk.run("run", "boss", "go")
    assert (again.code, again.out) == (0, "done\n")
    assert re.search(r"✓ helper prompt=go   helped( .*)?\n", again.err), again.err


def test_a_typed_result_is_json(desk: Shell, terminal: Callable[..., Terminal]) -> None:
    """On a terminal too: it was not spoken."""
    assert desk.run("run", "typed", "how much").out == '{\n  "usd": 4.5\n}\n'
    code, rest = terminal("run", "typed", "how much").end()
    assert (code, '{\r\n  "usd": 4.5\r\n}\r\n' in rest) == (0, True)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("42", "42"),
        ('"quoted"', "quoted"),
        ("[urgent] help", "[urgent] help"),
        ('["a", "b"]', ["a", "b"]),
        ("null", "null"),
    ],
)
def test_what_is_said_to_an_agent_is_a_text(desk: Shell, given: str, expected: Any) -> None:
    """JSON is what it says if that is a text or a list; everything else is the text as it was typed."""
    assert desk.ok("run", "echo", given)["result"] == expected


def test_what_cannot_be_meant_is_said(desk: Shell) -> None:
    """Words without quotes, nothing said, no such program, two apps, a file that is not there."""
    for words, message, hint in (
        (("support", "refund", "order", "7"), "these are 3: refund order 7", "torpor run support 'refund order 7'"),
        (("desk.py", "support", "refund", "order"), "these are 2: refund order", "torpor run support 'refund order'"),
        (("support",), "support is an agent, and nothing is said to it", 'torpor run support "..."'),
        (("support", " "), "what is said to support is empty", 'torpor run support "..."'),
        (
            ("suport", "x"),
            'no program named "suport" in desk.py (it has: echo, slow, support, talk, typed)',
            "support INPUT",
        ),
        (("desk.py",), "which program of desk.py?", "torpor run desk.py PROGRAM INPUT"),
        (("none.py", "support", "x"), "there is no file none.py", "torpor init"),
        (("support", "x", "--new", "--key", "k"), "--new starts a run of its own", "another --key"),
    ):
        done = desk.run("run", *words)
        assert done.code == 2, done
        first, second = done.err.splitlines()
        assert message in first
        assert hint in second
    (desk.folder / "other.py").write_text("from torpor import App\napp = App()\n", "utf-8")
    done = desk.run("run", "support", "x")
    assert (done.code, done.err) == (2, "error: which app? desk.py, other.py\nhint: torpor run desk.py\n")
