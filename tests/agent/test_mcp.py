"""MCP servers of an agent: real ones, over stdio and HTTP, that are restarted, die in a call, or do not start at all."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from fastmcp.client.transports import StdioTransport
from mcp.shared.exceptions import MCPError
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.mcp import MCPToolset

from tests.agent.scripted import results
from tests.agent.shops import Shop, agent_of, outcomes
from tests.house.tree import ROOT
from tests.patience import PATIENCE_SECONDS
from tests.worker.labs import on
from torpor import App, RunFailed, tool_context
from torpor.agent import servers
from torpor.agent.declared import Declared
from torpor.client import Client
from torpor.core.effect import Safety
from torpor.demo.agent import repository
from torpor.testing import Script, call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.stores import Moment, Place
    from torpor.store.protocol import Store
    from torpor.testing import Lab

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a slow machine start its servers."""
    for name in ("CONNECT_SECONDS", "ALIVE_SECONDS"):
        monkeypatch.setattr(servers, name, PATIENCE_SECONDS)


@pytest.fixture
def store(make_place: Callable[[str], Place]) -> Store:
    """Return a store in memory, for what does not ask which store it is."""
    return make_place("memory").open()


@pytest.fixture(params=["sqlite", "postgres"])
def durable(request: pytest.FixtureRequest, make_place: Callable[[str], Place]) -> Store:
    """Return a store of each kind that lasts."""
    return make_place(request.param).open()


@pytest.fixture(params=["stdio", "http"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    """Return a server of each kind."""
    made = Shop(tmp_path, request.param)
    yield made
    made.end()


def test_a_server_is_left_when_a_run_sleeps_and_found_again(shop: Shop, durable: Store, moment: Moment) -> None:
    """The run is put away between two calls and the server is another process: nothing is repeated, nothing is missed."""
    with agent_of(shop, call("look"), call("buy"), call("look"), "done", trust_hints=True, approve={"buy": True}) as (
        app,
        script,
    ):

        async def check(lab: Lab) -> None:
            run = await lab.start("keeper", "shop")
            await lab.settle()
            assert shop.acts == ["look"]
            shop.restart()
            await lab.approve(by="ada")
            assert await lab.result(run) == "done"
            assert shop.acts == ["look", "buy", "look"]
            assert shop.pids[0] != shop.pids[1] == shop.pids[2]
            assert outcomes(script) == [("look", "success look"), ("buy", "success buy"), ("look", "success look")]

        on(durable, moment, app, check)


def test_runs_share_a_server(tmp_path: Path, store: Store, moment: Moment) -> None:
    """Two runs at once have one program, which stays for the next one if its author says so."""
    shop = Shop(tmp_path, "stdio")
    with agent_of(shop, call("look"), "done", keep_alive=True, trust_hints=True) as (app, _):

        async def check(lab: Lab) -> None:
            for _ in range(2):
                started = [await lab.start("keeper", "shop") for _ in range(2)]
                assert [await lab.result(run) for run in started] == ["done", "done"]
            assert len(set(shop.pids)) == 1

        on(store, moment, app, check)


def test_a_call_that_may_be_made_again_is(shop: Shop, durable: Store, moment: Moment) -> None:
    """The server dies in a call of a tool that only reads, or is idempotent: it is connected to again, and asked again."""
    with agent_of(shop, call("look"), call("tidy"), "done", trust_hints=True) as (app, script):

        async def check(lab: Lab) -> None:
            for tool in ("look", "tidy"):
                shop.deadly(tool)
            run = await lab.start("keeper", "shop")
            assert await lab.result(run) == "done"
            assert shop.acts == ["look", "look", "tidy", "tidy"]
            assert outcomes(script) == [("look", "success look"), ("tidy", "success tidy")]

        on(durable, moment, app, check)


def test_what_cannot_be_repeated_is_asked_about(shop: Shop, durable: Store, moment: Moment) -> None:
    """The server dies in a `once` call: a person says what happened, the model is told that, and the next call is served."""
    with agent_of(shop, call("buy"), call("look"), "done", trust_hints=True) as (app, script):

        async def check(lab: Lab) -> None:
            shop.deadly("buy")
            run = await lab.start("keeper", "shop")
            await lab.settle()
            [wait] = await lab.waits(run)
            assert (wait.kind, wait.title) == ("attention", "did buy@0 happen?")
            assert "the MCP server shop of keeper went away in buy" in str(wait.show)
            await lab.answer(wait, happened="bought")
            assert await lab.result(run) == "done"
            assert shop.acts == ["buy", "look"]
            assert outcomes(script) == [("buy", "success bought"), ("look", "success look")]

        on(durable, moment, app, check)


def test_a_call_beside_one_that_kills_the_server(tmp_path: Path, store: Store, moment: Moment) -> None:
    """Two calls at once, and the server dies in one: each has one result, and both acted as often as they may."""
    shop = Shop(tmp_path, "stdio")
    with agent_of(shop, [call("tidy"), call("look")], "done", trust_hints=True) as (app, script):

        async def check(lab: Lab) -> None:
            shop.deadly("tidy")
            run = await lab.start("keeper", "shop")
            assert await lab.result(run) == "done"
            assert outcomes(script) == [("tidy", "success tidy"), ("look", "success look")]
            assert shop.acts.count("tidy") == 2

        on(store, moment, app, check)


def test_what_a_server_answers_is_an_answer(shop: Shop, store: Store, moment: Moment) -> None:
    """An error of the tool is the model's to read, once, whatever the tool's safety."""
    with agent_of(shop, call("refuse"), "done") as (app, script):

        async def check(lab: Lab) -> None:
            run = await lab.start("keeper", "shop")
            assert await lab.result(run) == "done"
            [(tool, content, outcome)] = results(script)
            assert (tool, outcome) == ("refuse", "retried")
            assert "we are closed" in str(content)
            assert shop.acts == ["refuse"]

        on(store, moment, app, check)


def test_an_author_may_doubt_what_a_server_answers(tmp_path: Path, durable: Store, moment: Moment) -> None:
    """With `tool_error_behavior="error"` an error of a `once` tool is a question: it may have acted before it said so."""
    shop = Shop(tmp_path, "http")
    shop.start()
    toolset: Any = MCPToolset(f"http://127.0.0.1:{shop.port}/mcp", id="shop", tool_error_behavior="error")
    app, script = App(), Script(call("refuse"), "done")
    app.agent("keeper", Agent(script, toolsets=[toolset]))

    async def check(lab: Lab) -> None:
        run = await lab.start("keeper", "shop")
        await lab.settle()
        [wait] = await lab.waits(run)
        assert wait.kind == "attention"
        assert "we are closed" in str(wait.show["why"])
        await lab.answer(wait, happened="it is bought")
        assert await lab.result(run) == "done"
        assert outcomes(script) == [("refuse", "success it")]
        assert shop.acts == ["refuse"]

    on(durable, moment, app, check)
    shop.end()


@pytest.mark.parametrize("wrong", ["missing", "ends at once", "nobody listens"])
def test_a_server_that_does_not_start(
    wrong: str, tmp_path: Path, store: Store, moment: Moment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run fails with an error that names the server and the next step; started later, it goes on."""
    monkeypatch.setattr(servers, "CONNECT_SECONDS", 0.0)
    program = tmp_path / "shop"
    shop = Shop(tmp_path, "http")
    toolset: Any
    if wrong == "nobody listens":
        toolset = MCPToolset(f"http://127.0.0.1:{shop.port}/mcp", id="shop", init_timeout=PATIENCE_SECONDS)
    else:
        transport = StdioTransport(str(program), [], keep_alive=False, log_file=tmp_path / "log")
        toolset = MCPToolset(transport, init_timeout=PATIENCE_SECONDS)
        if wrong == "ends at once":
            _write(program, "exit 1")
    app, script = App(), Script(call("look"), "done")
    app.agent("keeper", Agent(script, toolsets=[toolset]))

    async def check(lab: Lab) -> None:
        run = await lab.start("keeper", "shop")
        with pytest.raises(RunFailed, match="ServerLost: the MCP server shop of keeper does not start: ") as caught:
            await lab.result(run)
        assert f"torpor retry {run}" in caught.value.hint
        if wrong == "nobody listens":
            shop.start()
        else:
            _write(program, f'cd {ROOT} && exec {sys.executable} -m tests.agent.shop_server "{tmp_path}"')
        await Client(lab.store).retry(run.name, by="ada")
        assert await lab.result(run) == "done"
        assert shop.acts == ["look"]

    try:
        on(store, moment, app, check)
    finally:
        shop.end()


def _write(program: Path, text: str) -> None:
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)


def test_a_server_that_stays_away_was_not_asked(
    tmp_path: Path, store: Store, moment: Moment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies and is not started again: what comes after it fails, the model is told so, and no person is asked."""
    monkeypatch.setattr(servers, "CONNECT_SECONDS", 0.0)
    shop = Shop(tmp_path, "http")
    with agent_of(shop, call("look"), call("buy"), "done", trust_hints=True) as (app, script):

        async def check(lab: Lab) -> None:
            shop.over = True
            shop.deadly("look")
            run = await lab.start("keeper", "shop")
            assert await lab.result(run) == "done"
            told = [(tool, str(content)) for tool, content, _ in results(script)]
            assert [tool for tool, _ in told] == ["look", "buy"]
            assert all("the MCP server shop of keeper cannot be reached" in content for _, content in told)
            assert shop.acts == ["look"]

        on(store, moment, app, check)
    shop.end()


@pytest.mark.parametrize("trusted", [True, False])
def test_hints_count_if_they_are_trusted(*, trusted: bool, tmp_path: Path, store: Store, moment: Moment) -> None:
    """A tool that only reads is a step then, an effect otherwise; consent is the author's alone in both."""
    shop = Shop(tmp_path, "stdio")
    with agent_of(shop, call("look"), call("tidy"), "done", trust_hints=trusted, approve={"look": True}) as (app, _):

        async def check(lab: Lab) -> None:
            run = await lab.start("keeper", "shop")
            await lab.settle()
            assert [wait.title for wait in await lab.waits(run)] == ["look?"]
            assert shop.acts == []
            await lab.approve(by="ada")
            assert await lab.result(run) == "done"
            began = [(line.key, line.value["safety"]) for line in await lab.journal(run) if line.kind == "intent"]
            assert began == ([("tidy@0", "keyed")] if trusted else [("look@0", "once"), ("tidy@0", "once")])

        on(store, moment, app, check)


def test_what_an_author_says_goes_before_hints() -> None:
    """A hint says something only where the author has said nothing."""
    reads: Any = {"annotations": {"readOnlyHint": True, "idempotentHint": True}}
    settles: Any = {"annotations": {"readOnlyHint": False, "idempotentHint": True}}
    agent: Any = None
    trusting = Declared("keeper", agent, safety={"buy": Safety.ONCE}, trust_hints=True)
    assert trusting.safety_of("look", reads) is Safety.REPEATABLE
    assert trusting.safety_of("tidy", settles) is Safety.KEYED
    assert trusting.safety_of("buy", reads) is Safety.ONCE
    for nothing in (None, {}, {"annotations": None}, {"annotations": {"readOnlyHint": "yes"}}):
        assert trusting.safety_of("look", nothing) is Safety.ONCE
    assert Declared("keeper", agent).safety_of("look", reads) is Safety.ONCE


def test_undeclared_tools_are_named_once(
    tmp_path: Path, store: Store, moment: Moment, caplog: pytest.LogCaptureFixture
) -> None:
    """A server's tools are known when it is connected to; then those that count as `once` are said, in the log."""
    shop = Shop(tmp_path, "stdio")
    with agent_of(shop, call("look"), "done", trust_hints=True, safety={"refuse": "repeatable"}) as (app, _):

        async def check(lab: Lab) -> None:
            for _ in range(2):
                run = await lab.start("keeper", "shop")
                assert await lab.result(run) == "done"

        with caplog.at_level(logging.WARNING, "torpor.agent"):
            on(store, moment, app, check)
        said = [record.getMessage() for record in caplog.records if record.name == "torpor.agent"]
        why = "tools of MCP servers that nothing is declared of count as `once`"
        assert said == [f'keeper: {why}: buy; to change: safety={{"buy": "repeatable"}}']


def test_the_real_git_server(tmp_path: Path, store: Store, moment: Moment) -> None:
    """mcp-server-git reads a repository, and its own tool commits in it once, when a person has read the message."""
    place = tmp_path / "repository"
    repository.make(place)
    (place / "NEWS").write_text("none\n")
    transport = StdioTransport(
        sys.executable,
        ["-m", "mcp_server_git", "--repository", "."],
        cwd=str(place),
        keep_alive=False,
        log_file=tmp_path / "log",
    )
    here = {"repo_path": "."}
    script = Script(
        [call("git_log", **here, max_count=1), call("git_show", **here, revision="HEAD:README.md")],
        call("git_add", **here, files=["NEWS"]),
        call("git_commit", **here, message="Say what is new"),
        call("git_show", **here, revision="nothing"),
        "done",
    )
    app = App()
    agent = Agent(script, toolsets=[MCPToolset(transport, id="git", init_timeout=PATIENCE_SECONDS)])
    app.agent("keeper", agent, trust_hints=True, approve={"git_commit": True})

    async def check(lab: Lab) -> None:
        run = await lab.start("keeper", "say what is new")
        await lab.settle()
        assert repository.commits(place) == []
        await lab.approve(by="ada")
        assert await lab.result(run) == "done"
        told = {(tool, outcome): str(content) for tool, content, outcome in results(script)}
        assert "Release 1.2.0" in told["git_log", "success"]
        assert "# pages" in told["git_show", "success"]
        assert "did not resolve" in told["git_show", "retried"]
        [commit] = repository.commits(place)
        assert commit in told["git_commit", "success"]

    on(store, moment, app, check)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MCPError(-32000, "Connection closed"), True),
        (MCPError(-32001, "Timed out"), True),
        (MCPError(-32000, "quota exceeded"), False),
        (MCPError(-32602, "Unknown tool: look"), False),
        (ConnectionResetError("reset"), True),
        (anyio.ClosedResourceError(), True),
        (RuntimeError("Session task completed unexpectedly"), True),
        (RuntimeError("no idea"), False),
        (ModelRetry("we are closed"), False),
    ],
)
def test_what_is_a_lost_answer(error: Exception, expected: bool) -> None:  # noqa: FBT001 - parametrised
    """A connection that closed, a time that ran out; never what the server itself has said. Groups may go in circles."""
    assert servers.lost(error) is expected
    group = ExceptionGroup("several", [error])
    error.__context__ = group
    retry = ModelRetry("try again")
    retry.__cause__ = group
    assert servers.lost(retry) is expected


def test_a_keyed_call_can_be_given_its_key(tmp_path: Path, store: Store, moment: Moment) -> None:
    """As docs/agents.md says it: `process_tool_call` finds the key that the journal has, the same in each attempt."""
    sent: list[str] = []

    async def with_key(_ctx: Any, call_tool: Any, name: str, args: dict[str, Any]) -> Any:
        sent.append(tool_context().key)
        return await call_tool(name, args, metadata={"idempotency_key": tool_context().key})

    shop = Shop(tmp_path, "http")
    shop.start()
    toolset: Any = MCPToolset(f"http://127.0.0.1:{shop.port}/mcp", id="shop", process_tool_call=with_key)
    app, script = App(), Script(call("buy"), "done")
    app.agent("keeper", Agent(script, toolsets=[toolset]), safety={"buy": "keyed"})

    async def check(lab: Lab) -> None:
        run = await lab.start("keeper", "shop")
        assert await lab.result(run) == "done"
        assert shop.acts == ["buy"]
        (effect,) = (await Client(lab.store).show(run.name)).effects
        assert sent == [effect.key]

    try:
        on(store, moment, app, check)
    finally:
        shop.end()
