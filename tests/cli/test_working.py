"""run, worker and dev: real processes that work, are interrupted, and go on."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import signal
import socket
import threading
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.cli.emulator import Emulator
from tests.cli.shell import BROKEN_AT, CTRL_C
from torpor import clock
from torpor.client import Client
from torpor.engine.runs import register
from torpor.runtime import Process, load_app
from torpor.store.migrate import newest
from torpor.store.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.shell import Shell, Terminal

pytestmark = pytest.mark.slow

DAY = 86_400 * clock.SECOND
RUN_ID = re.compile(r"[a-z]+-[0-9A-Z]{4}")


def test_run_prints_the_result(shell: Shell) -> None:
    """The result on standard output, what happens on standard error; one document with --json."""
    done = shell.run("run", "shop.py", "double", "21")
    assert (done.code, done.out) == (0, "42\n")
    assert "completed" in done.err
    assert shell.ok("run", "shop.py:app", "double", "4")["result"] == 8


def test_run_tells_of_the_author_s_error(shell: Shell) -> None:
    """The recorded error with its place in the author's code, exit code 1."""
    done = shell.run("run", "shop.py", "broken", "0")
    assert (done.code, done.out) == (1, "")
    assert f"failed: ZeroDivisionError: division by zero ({BROKEN_AT})" in done.err.splitlines()[-2]
    assert done.err.splitlines()[-2].startswith("error: broken-")
    assert done.err.splitlines()[-1].startswith("hint: torpor show broken-")


HINTED = """from torpor import App, Context, UsageError

app = App()


@app.flow
async def hinted(ctx: Context) -> None:
    raise UsageError("no such shop", hint="say which shop")
"""


def test_the_hint_of_a_failure_is_told(shell: Shell) -> None:
    """A worker says that a run failed; `run` and `show` say what its error recommends."""
    (shell.folder / "hinted.py").write_text(HINTED, "utf-8")
    run = shell.run("start", "hinted", "--app", "hinted.py").out.split()[0]
    worker = shell.run("worker", "hinted.py", "--until-idle")
    assert re.search(rf"^\S+ ✕ {run}  failed: UsageError: no such shop", worker.err, re.MULTILINE)
    assert "  hint: say which shop\n" in shell.run("show", run).out
    done = shell.run("run", "hinted.py", "hinted")
    assert done.err.splitlines()[-1].startswith("hint: say which shop; torpor show hinted-")


def test_run_stops_at_a_person_without_a_terminal(shell: Shell) -> None:
    """Exit code 5 with the command that decides; afterwards the same key goes on to the end."""
    done = shell.run("run", "shop.py", "sends", '"a1"', "--key", "k")
    assert done.code == 5
    wait = re.search(r"hint: torpor run shop.py .*;   or torpor approve (w-\S+)", done.err)
    assert wait is not None
    assert shell.run("approve", wait[1], "--yes").code == 0
    again = shell.run("run", "shop.py", "sends", '"a1"', "--key", "k")
    assert (again.code, again.out) == (0, '"True"\n')
    assert "was started before with this key" in again.err


def test_run_stops_waiting(shell: Shell) -> None:
    """`--timeout` is exit code 124, and says that the run goes on."""
    done = shell.run("run", "shop.py", "naps", "3600", "--timeout", "0.3")
    assert (done.code, done.out) == (124, "")
    assert "had not ended after 0.3 seconds; nothing of it is lost. It goes on with the same command" in done.err


def test_run_asks_on_a_terminal(terminal: Callable[..., Terminal]) -> None:
    """An unknown effect is settled, then an approval given, in the terminal; then the result."""
    going = terminal("run", "shop.py", "sends", '"torn"', "--by", "ada")
    shown = going.until("[l]eave it ")
    assert "it raised OSError: connection reset" in shown
    going.type("h\n")
    going.until("empty for nothing: ")
    going.type("nonsense\n")
    going.until("empty for nothing: ")
    going.type('"re_7"\n')
    going.until("approve Send re_7? [y]es, [n]o ")
    going.type("y\n")
    code, rest = going.end()
    assert (code, Emulator(100).feed(rest).text.splitlines()[-1]) == (0, '"True"')


def test_ctrl_c_leaves_the_run(shell: Shell, terminal: Callable[..., Terminal]) -> None:
    """Ctrl-C is exit code 130; the run goes on, and it says how."""
    going = terminal("run", "shop.py", "naps", "3600")
    going.until("asleep until")
    going.type(CTRL_C)
    code, rest = going.end()
    assert code == 130
    assert re.search(r"naps-\w+ sleeps until .+; nothing of it is lost", rest)
    assert "next: torpor run shop.py naps 3600" in rest
    assert shell.ok("ps")["runs"][0]["shown"] == "asleep"


def test_a_worker_drains(shell: Shell, runs: dict[str, str]) -> None:
    """SIGTERM ends it with code 0 and says how things stand."""
    with shell.going("worker", "shop.py", "--name", "w7") as worker:
        assert worker.stderr is not None
        first = next(line for line in worker.stderr if "works on" in line)
        assert first.startswith("w7 works on acts, broken, double, hears, naps, sends   sqlite:///torpor.db")
        found = shell.ok("doctor")
        assert [(line["worker"], line["state"]) for line in found["workers"]] == [("w7", "answering")]
        worker.send_signal(signal.SIGTERM)
        last = worker.stderr.read().splitlines()[-1]
        assert worker.wait() == 0
    assert re.fullmatch(
        r"w7 stopped: 2 runs asleep, next wake .+, 2 runs need you\. No effect was in flight\.", last
    ), last
    assert runs
    assert shell.ok("doctor")["workers"] == []


def test_dev_works_reloads_and_goes_on(shell: Shell, terminal: Callable[..., Terminal]) -> None:
    """The header, a run asleep, a change of the code, broken code, mended code, Ctrl-C, and the run is still there."""
    dev = terminal("dev", "shop.py")
    header = dev.until("wake when you come back.")
    assert re.search(r"^torpor \S+   SQLite torpor\.db \(new\)   Python 3", header, re.MULTILINE)
    assert "worker    w1, reloads when shop.py changes" in header
    assert "start one:  torpor start acts " in header
    run = shell.ok("start", "hears", '"go"')["run"]
    dev.until(f"{run}  awake")
    dev.until(f"{run}  asleep: message go")
    code = (shell.folder / "shop.py").read_text("utf-8")
    (shell.folder / "shop.py").write_text(code.replace("2 * number", "3 * number"), "utf-8")
    dev.until("reloaded shop.py")
    tripled = shell.ok("start", "double", "5")["run"]
    dev.until(f"{tripled}  completed")
    assert shell.ok("show", tripled)["result"] == 15
    (shell.folder / "shop.py").write_text(code + "x = (", "utf-8")
    assert "SyntaxError" in dev.until("cannot be loaded; runs stay asleep until it changes")
    (shell.folder / "shop.py").write_text(code, "utf-8")
    dev.until("reloaded shop.py")
    assert shell.run("signal", run, "go", "7").code == 0
    dev.until(f"{run}  completed")
    dev.type(CTRL_C)
    code_at_end, rest = dev.end()
    assert (code_at_end, rest.splitlines()[-1]) == (130, "Nothing is open. No effect was in flight.")


def test_dev_reloads_although_its_gate_is_shut(
    shell: Shell, terminal: Callable[..., Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A callback fails for good: to mend it in the file is the way out."""
    host, shop, looks_again = shell.folder / "host", shell.folder / "shop.py", threading.Event()
    monkeypatch.setenv("ROUSE_HOST_SOCKET", str(host))
    code = shop.read_text("utf-8")
    failing = "\n\n@rouse.on_rousal\ndef may_go_on(rousal):\n    raise SystemExit('no network')\n"
    shop.write_text(code.replace("import App,", "import App, rouse,") + failing, "utf-8")
    dev = terminal("dev", "shop.py")
    dev.until("wake when you come back.")
    while not host.is_socket():
        looks_again.wait(0.01)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as speaking:
        speaking.sendto(json.dumps({"event": "2", "kind": "copied"}).encode(), str(host))
    dev.until("callback may_go_on failed in AUTHORITY")
    shop.write_text(code, "utf-8")
    assert "its gate was shut" in dev.until("reloaded shop.py")
    run = shell.ok("start", "double", "5")["run"]
    dev.until(f"{run}  completed")
    dev.type(CTRL_C)
    assert dev.end()[0] == 130


def test_ctrl_c_waits_for_an_effect(shell: Shell, terminal: Callable[..., Terminal]) -> None:
    """The doctor says that it is not safe to stop; Ctrl-C lets the effect end, and nothing is left unknown."""
    dev = terminal("dev", "shop.py")
    dev.until("wake when you come back.")
    os.mkfifo(shell.folder / "opened")
    run = shell.ok("start", "acts", '"opened"')["run"]
    dev.until("acting")
    assert f"hold#1 (once) of {run} is in flight on w1" in shell.ok("doctor")["safe_to_stop_text"]
    dev.type(CTRL_C)
    dev.until(f"waiting for an effect of {run} to end")
    (shell.folder / "opened").write_text("", "utf-8")
    code, rest = dev.end()
    assert code == 130
    assert rest.splitlines()[-1].endswith(". 1 effect in flight ended first.")
    (effect,) = shell.ok("show", run)["effects"]
    assert effect["outcome"] == "done"


def test_a_second_ctrl_c_leaves_at_once(shell: Shell, terminal: Callable[..., Terminal]) -> None:
    """Nothing waits any more; the effect is unknown to whoever takes the run up."""
    dev = terminal("dev", "shop.py")
    dev.until("wake when you come back.")
    os.mkfifo(shell.folder / "never")
    run = shell.ok("start", "acts", '"never"')["run"]
    dev.until("acting")
    dev.type(CTRL_C)
    dev.until("waiting for an effect")
    dev.type(CTRL_C)
    code, _ = dev.end()
    assert code == 130
    line = shell.ok("ps")["runs"][0]
    assert (line["run"], line["shown"], line["reason"]) == (run, "running", "turn 1 on w1, which is lost")
    assert shell.run("worker", "shop.py", "--until-idle").code == 0
    assert shell.ok("inbox")["items"][0]["what"] == 'hold#1 "never"'


def test_the_same_on_postgresql(shell: Shell, server_url: Callable[[str], str]) -> None:
    """Every command speaks to a server as to a file."""
    schema = f"cli_{secrets.token_hex(6)}"
    url = f"{server_url('postgres')}?schema={schema}"
    try:
        assert shell.run("run", "shop.py", "double", "4", TORPOR_STORE=url).out == "8\n"
        wait = re.search(r"w-\w+-\w+", shell.run("run", "shop.py", "sends", '"a1"', "--store", url).err)
        assert wait is not None
        assert shell.run("approve", wait[0], "--yes", "--store", url).code == 0
        assert shell.run("approve", wait[0], "--yes", "--store", url).code == 4
        assert shell.run("worker", "shop.py", "--until-idle", "--store", url).code == 0
        runs = shell.ok("ps", "--store", url)["runs"]
        assert [line["shown"] for line in runs] == ["completed", "completed"]
        assert shell.ok("doctor", "--store", url)["place"]["kind"] == "postgres"
        assert shell.run("doctor", "--reset-clock", "--store", url).code == 2
        number = newest("postgres")
        assert shell.ok("migrate", "--store", url) == {"before": number, "after": number}
    finally:
        with psycopg.connect(server_url("postgres"), autocommit=True) as admin:
            admin.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


def test_dev_as_json_lines(shell: Shell) -> None:
    """Each line is a document; what the program prints goes to standard error."""
    code = (shell.folder / "shop.py").read_text("utf-8")
    (shell.folder / "shop.py").write_text(code.replace("return 2 *", 'print("printed")\n    return 2 *'), "utf-8")
    with shell.going("dev", "shop.py", "--json") as dev:
        assert dev.stdout is not None
        assert dev.stderr is not None
        started = json.loads(dev.stdout.readline())
        assert (started["event"], started["store"]) == ("started", "sqlite:///torpor.db")
        run = shell.ok("start", "double", "4")["run"]
        seen = [json.loads(dev.stdout.readline()) for _ in range(2)]
        assert [(line["event"], line["run"]) for line in seen] == [("running", run), ("completed", run)]
        dev.send_signal(signal.SIGTERM)
        rest = [json.loads(line) for line in dev.stdout]
        assert [line["event"] for line in rest] == ["stopped"]
        assert dev.stderr.read() == "printed\n"
        assert dev.wait() == 0


def sleep_through_a_timer(shell: Shell) -> str:
    """Let a run be put away for a day by a process of two days ago, as the store's clock has it, and return its id."""

    async def long_ago() -> str:
        app = load_app(str(shell.folder / "shop.py"))
        store = open_store(str(shell.folder / "torpor.db"), clock=lambda: clock.wall() - 2 * DAY)
        try:
            await store.transact(register, [(flow.name, flow.version, flow.source) for flow in app.flows.values()])
            run = await Client(store).start("naps", 86_400.0)
            await Process(store, app, until_idle=True).run()
            return run.run_id
        finally:
            await store.close()

    return asyncio.run(long_ago())


def test_dev_says_that_it_slept_through_a_timer(shell: Shell, terminal: Callable[..., Terminal]) -> None:
    """Coming back late is normal: the header says what is there, and the run goes on from where it was."""
    run = sleep_through_a_timer(shell)
    assert [line["shown"] for line in shell.ok("ps")["runs"]] == ["asleep"]
    dev = terminal("dev")
    header = dev.until("wake when you come back.")
    assert "SQLite torpor.db (1 run asleep; slept through 1 timer, 1d" in header
    assert run not in header
    dev.until(f"{run}  completed")
    assert re.search(r"slept 2d for a timer +woken", shell.run("show", run).out)


def test_the_ids_in_errors_can_be_pasted(shell: Shell) -> None:
    """Whatever names a run names it whole."""
    done = shell.run("run", "shop.py", "broken", "0")
    named = RUN_ID.findall(done.err)
    assert named
    assert len(set(named)) == 1
    assert shell.run("show", named[0]).code == 0
