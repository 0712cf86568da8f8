"""What the commands say in plain words: log lines, names in full, what an inbox line is about, who listens to a signal."""

from __future__ import annotations

import json
import logging
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.shell import CTRL_C, TORPOR, Terminal
from torpor.cli.driving import ForPeople
from torpor.cli.fitting import answers

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.shell import Shell

AGENT = '''"""An agent that is talked to, and one whose model is dear."""

from pydantic_ai import Agent, ModelHTTPError, ModelResponse, TextPart
from torpor import App, Budget
from torpor.testing import Script, call

app = App()


@app.tool(safety="keyed", approve=True)
def refund(order: str, usd: float, why: str) -> str:
    """Give money back."""
    return f"re_{order} {usd}"


GIVE = call("refund", order="88121", usd=40.0, why="it came twice, and the second one was damaged as well")
app.agent("support", Agent(Script(GIVE, "Done."), tools=[refund]))
app.agent("talk", Agent(Script("Hello, who is it?", "Nice to meet you.")), conversation=True)
ERRORS = [503, 401]


def ill(messages, info):
    """Answer the third time."""
    if ERRORS:
        raise ModelHTTPError(ERRORS.pop(0), "m")
    return ModelResponse([TextPart("Well again.")])


app.agent("ill", Agent(Script(ill)), conversation=True)
app.agent("lost", Agent(Script(ModelHTTPError(401, "m"), "Found.")))
app.agent("dear", Agent(Script("Hello.", "Bye.")), budget=Budget(usd=0))
'''


@pytest.fixture
def agents(shell: Shell) -> Shell:
    """Give a shell in a folder whose only app is `agents.py`."""
    (shell.folder / "shop.py").unlink()
    (shell.folder / "agents.py").write_text(AGENT, "utf-8")
    return shell


def line(known: str = "", **fields: str) -> str:
    """Return a log line as people read it; `known`: the run that is looked at."""
    record = logging.LogRecord("torpor.worker", logging.WARNING, "", 0, "event='x'", None, None)
    record.fields = fields
    return ForPeople("%(message)s", run=known).format(record)


def test_log_lines_have_one_style() -> None:
    """What happened, what it says, then names and values; the run is named unless it is the one that is looked at."""
    fields = {"event": "undeclared", "flow": "desk", "said": "look_up counts as once", "run": "desk-7Q3D"}
    assert line(**fields) == "undeclared: look_up counts as once   flow=desk run=desk-7Q3D"
    assert line("desk-7Q3D", **fields) == "undeclared: look_up counts as once   flow=desk"
    assert line(event="desk: look_up counts as `once`", flow="desk") == "desk: look_up counts as `once`"
    assert line(event="desk is full", flow="desk") == "desk is full   flow=desk"
    assert line(event="retried", why="too many requests") == 'retried   why="too many requests"'
    assert line(event="the price is unknown", run="desk-7Q3D", worker="w1") == "the price is unknown   run=desk-7Q3D"
    plain = logging.LogRecord("torpor.dev", logging.WARNING, "", 0, "changes are not seen", None, None)
    assert ForPeople("%(message)s").format(plain) == "changes are not seen"


def test_log_lines_are_broken_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal; elsewhere a line is a line."""
    monkeypatch.setenv("COLUMNS", "40")
    record = logging.LogRecord("torpor.worker", logging.WARNING, "", 0, "", None, None)
    record.fields = {"event": "shut", "why": "the machine was asleep", "hint": "it opens by itself, soon"}
    told = ForPeople("00:00:00 %(message)s", wraps=True).format(record)
    assert told.split("\n") == [
        '00:00:00 shut   why="the machine was',
        '         asleep" hint="it opens by',
        '         itself, soon"',
    ]
    assert ForPeople("%(message)s").format(record).count("\n") == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({}, [("TEXT", "")]),
        ({"choices": ["again", "fail"]}, [("again", ""), ("fail", "")]),
        ({"choices": ["two words", 2, None]}, [("'two words'", ""), ("2", ""), ("null", "")]),
        ({"choices": list(range(10))}, [*((f"{n}", "") for n in range(7)), ("7", "or one of 2 more")]),
        ({"schema": {"type": "integer", "minimum": 0}}, [("10", "a whole number, 0 or more")]),
        (
            {"schema": {"type": "integer", "minimum": 20, "maximum": 30}},
            [("20", "a whole number, 20 or more, at most 30")],
        ),
        ({"schema": {"type": "integer", "exclusiveMaximum": 5}}, [("4", "a whole number, less than 5")]),
        ({"schema": {"type": "integer", "maximum": 2.5}}, [("'JSON'", "a whole number, at most 2.5")]),
        ({"schema": {"type": "number", "exclusiveMinimum": 0}}, [("'JSON'", "a number, more than 0")]),
        ({"schema": {"type": "boolean"}}, [("true", "true or false")]),
        ({"schema": {"type": "object"}}, [("'JSON'", "")]),
        ({"schema": True}, [("'JSON'", "")]),
    ],
)
def test_a_question_says_what_answers_it(content: dict[str, Any], said: list[tuple[str, str]]) -> None:
    """Every choice, or a value that fits, with what it is in words."""
    assert answers("w-1", content) == [(f"torpor answer w-1 {value}", meaning) for value, meaning in said]


@pytest.mark.slow
def test_names_are_said_in_full(shell: Shell, runs: dict[str, str]) -> None:
    """Letters are enough to be typed; what answers them is the whole name."""
    run = runs["hears go"]
    letters = run.rpartition("-")[2].lower()
    assert shell.run("signal", letters, "goo").out.startswith(f"goo is kept for {run}; ")
    assert shell.run("signal", letters, "--interrupt").out.startswith(f"{run} is interrupted")
    assert shell.ok("signal", letters, "--interrupt")["run"] == run
    assert shell.run("cancel", letters).out.splitlines()[-1] == f"next: torpor show {run}"
    assert shell.ok("cancel", letters)["run"] == run


@pytest.mark.slow
def test_a_signal_that_nothing_waits_for_warns(shell: Shell, runs: dict[str, str]) -> None:
    """Also where no message is awaited at all; where it is, nothing more is said."""
    napping, hearing = runs["naps 86400.0"], runs["hears go"]
    said = "; nothing waits for it now, it is read when the program asks for it"
    assert shell.run("signal", napping, "msg", "1").out.splitlines()[0] == f"msg is kept for {napping}{said}"
    assert shell.run("signal", hearing, "go").out.splitlines()[0] == f"go is kept for {hearing}"


@pytest.mark.slow
def test_an_agent_is_said_to_be_one(agents: Shell) -> None:
    """`show` names its file; what it listens to is a message; an interrupt is said in words."""
    assert agents.run("run", "talk", "hello").out == "Hello, who is it?\n"
    (run,) = agents.ok("ps")["runs"]
    assert agents.run("signal", run["run"], "--interrupt", "--reason", "wait").code == 0
    assert agents.run("worker", "agents.py", "--until-idle").code == 0
    shown = agents.run("show", run["run"]).out
    assert shown.splitlines()[0] == f"{run['run']}   agent talk version 1   agents:talk"
    assert "asleep: message\n" in shown
    assert "message message" not in shown
    assert "Interrupted" not in shown
    assert re.search(r"  message: wait +interrupted", shown), shown
    assert "asleep: message " in agents.run("ps").out
    assert f"torpor signal {run['run']} message VALUE" in shown


@pytest.mark.slow
def test_an_approval_tells_what_it_is_about(agents: Shell) -> None:
    """In a line of the inbox, cut where it is long; and whoever cannot be asked is told how it goes on."""
    done = agents.run("run", "support", "refund order 88121")
    (item,) = agents.ok("inbox")["items"]
    assert (done.code, done.err.splitlines()[-1]) == (
        5,
        f"hint: torpor run support 'refund order 88121'   asks in a terminal;   or torpor approve {item['wait']}   first",
    )
    shown = agents.run("inbox").out
    assert 'refund? order=88121 usd=40.0 why="it came twice, and the s..."' in shown
    assert json.loads(agents.run("inbox", "--json").out)["items"][0]["what"] == "refund?"


@pytest.mark.slow
def test_a_hint_names_every_answer(agents: Shell) -> None:
    """Where nobody can be asked: each choice of the question, as it is typed."""
    done = agents.run("run", "lost", "hello")
    (item,) = agents.ok("inbox")["items"]
    wait = item["wait"]
    assert done.code == 5
    assert f"torpor answer {wait} again   or   torpor answer {wait} fail   first" in done.err.splitlines()[-1]
    shown = agents.run("inbox", wait).out
    assert f"torpor answer {wait} again" in shown
    assert f"torpor answer {wait} fail" in shown


@pytest.mark.slow
@pytest.mark.usefixtures("agents")
def test_an_unknown_key_asks_again(terminal: Callable[..., Terminal]) -> None:
    """A slip of the finger leaves nothing: [l] does."""
    going = terminal("run", "dear", "hello")
    for keys in ("x\n", "\n"):
        going.until("[l]eave it ")
        going.type(keys)
    going.until("[l]eave it ")
    going.type("l\n")
    code, rest = going.end()
    assert (code, "needs a person: budget" in rest) == (5, True)


@pytest.mark.slow
@pytest.mark.usefixtures("agents")
def test_a_trouble_of_the_model_is_told(terminal: Callable[..., Terminal]) -> None:
    """Why it sleeps until a moment; and what a person is asked about it is not asked at the prompt for what is said."""
    going = terminal("run", "ill", "hello")
    going.until("its model is asked again later: ModelHTTPError: status_code: 503")
    going.until("asleep until ")
    going.until("ill cannot ask its model")
    assert "\n> " not in going.until("answer> ")
    going.type("again\n")
    going.until("Well again.")
    going.until("\n> ")
    going.type("\x04")
    assert going.end()[0] == 0


@pytest.mark.slow
def test_what_a_terminal_is_told_is_broken_between_words(agents: Shell) -> None:
    """Log lines, the last words of `run`, the programs of `dev`: no line is left to the terminal to break."""
    lines = ""
    for words, keys in ((["run", "ill", "hello"], "again\n"), (["dev", "agents.py"], CTRL_C)):
        going = Terminal(["env", "COLUMNS=60", *TORPOR, *words], agents.folder)
        try:
            lines += going.until("answer> " if keys != CTRL_C else "Ctrl-C stops")
            going.type(keys)
            if keys != CTRL_C:
                lines += going.until("\n> ")
                going.type("\x04")
            lines += going.end()[1]
        finally:
            going.close()
    told = [re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", line) for line in lines.replace("\r", "\n").split("\n")]
    assert [line for line in told if len(line) > 60 and "torpor " not in line] == []
    assert "It goes on with the same command" in " ".join(" ".join(told).split())
    assert any(line.endswith(" (agent),") for line in told), told


@pytest.mark.slow
def test_sixty_columns(agents: Shell, terminal: Callable[..., Terminal]) -> None:
    """Sentences and headers are broken between words, and what a command means goes below it; commands stay whole."""
    run = agents.run("start", "support", '"refund"', "--app", "agents.py").out.split()[0]
    assert agents.run("worker", "agents.py", "--until-idle").code == 0
    (item,) = agents.ok("inbox")["items"]
    narrow = {"COLUMNS": "60"}
    told = [agents.said(*words, **narrow) for words in (["show", run], ["inbox"], ["inbox", item["wait"]])]
    told.append(agents.said("signal", run, "a-name-that-nobody-knows", **narrow))
    assert [line for text in told for line in text.splitlines() if len(line) > 60] == []
    assert f"torpor approve {item['wait']} --edit" in told[2]
    assert "it is read when the program asks for it" in " ".join(told[3].split())
    going = terminal(
        "approve", item["wait"], "--set", 'usd={"a": 1, "b": "a value that cannot be in this place at all"}'
    )
    said = going.end()[1]
    assert max(len(line) for line in said.split("\r\n") if not line.startswith("hint: ")) <= 100, said
