"""MCP servers of an agent: programs and addresses of others, which do not start, die in a call, and come back.

pydantic-ai opens a connection when the first run of a worker needs it and closes it when the last one has let go. Of a
connection that dies meanwhile it tells the model what it would tell of an answer: "Connection closed", try again. And it stays
dead. That is no answer: the server may have done what it was asked. So here

* a call whose connection was lost is made once more, on a new connection, if its tool may be called again; otherwise its
  outcome is unknown, and a person says what happened (G4);
* a server that died is connected to again by the next call that comes, of whatever run; one that cannot be reached was not
  asked, and the model is told so;
* a server that does not start ends the run with an error that names it. Nothing is lost: `torpor retry` goes on from there;
* after a rousal (`torpor.rouse`) no connection of another life is used: over HTTP everything is made anew, without a goodbye,
  for a copy of this process may still talk there; a program is asked whether it lives, and started anew if it does not.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from pydantic_ai.exceptions import ModelRetry

from torpor import rouse
from torpor.agent.declared import hinted
from torpor.errors import NotDone, ServerLost

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence

    from pydantic_ai import AbstractToolset, ToolDefinition, ToolsetTool
    from pydantic_ai.mcp import MCPToolset

    from torpor.agent.declared import Declared

CONNECT_SECONDS = 10.0
"""For so long a server that does not answer is asked again: it may be about to be started."""
PAUSE_SECONDS = 0.5
SAID_SECONDS = 1.0
"""After so long it is said that a server is waited for."""
ALIVE_SECONDS = 10.0
"""A server that does not list its tools for so long has died."""
_LOG = logging.getLogger("torpor.agent")
_CLOSED = -32000
_TIMED_OUT = frozenset({-32001, 408})
_GONE = ("Session task completed", "Client is not connected", "Client failed to connect")
_MODULES = frozenset({"httpx", "httpx2", "httpcore", "httpcore2", "anyio"})
_LOST: WeakSet[Any] = WeakSet()
"""Clients whose connection is known to be dead."""
_REVIVED: WeakSet[Any] = WeakSet()
"""Clients that were connected anew behind pydantic-ai's back, and are closed with the last run that uses them."""
_SPEAKER, _ITS_NAME = ("mcp.client.streamable_http", "StreamableHTTPTransport"), "session_id"
"""Where the library's class that speaks HTTP is, and where it keeps what the server calls the connection."""
_LIVES: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
"""The incarnation in which a client was connected, or asked whether it lives."""
_LOCKS: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


def servers_of(toolsets: Iterable[AbstractToolset[Any]]) -> list[MCPToolset[Any]]:
    """Return the MCP servers among toolsets and in them, each once."""
    loaded = sys.modules.get("pydantic_ai.mcp")
    if loaded is None:  # then nobody has one
        return []
    found: dict[int, MCPToolset[Any]] = {}

    def visit(toolset: AbstractToolset[Any]) -> None:
        if isinstance(toolset, loaded.MCPToolset):
            found[id(toolset)] = toolset

    for toolset in toolsets:
        toolset.apply(visit)
    return list(found.values())


def served(tool: ToolDefinition) -> bool:
    """Whether a tool is an MCP server's."""
    return {"annotations", "meta", "task"} <= set(tool.metadata or ())


def name_undeclared(declared: Declared, tools: Iterable[ToolsetTool[Any]]) -> None:
    """Name in the log, once in a process, a server's tools that nothing is declared of: they were not known at start-up."""
    defined = [tool.tool_def for tool in tools]
    named = [
        tool.name
        for tool in defined
        if served(tool)
        and tool.name not in {*declared.named, *declared.safety, *declared.tools}
        and not (declared.trust_hints and hinted(tool.metadata))
    ]
    if named:
        declared.named.update(named)
        words = "tools of MCP servers that nothing is declared of count as `once`"
        write = f'safety={{"{min(named)}": "repeatable"}}'
        _LOG.warning("%s: %s: %s; to change: %s", declared.name, words, ", ".join(sorted(named)), write)


def name_of(server: MCPToolset[Any]) -> str:
    """Return what people call a server: its id, or the program it is. Its arguments may hold a key."""
    command = getattr(server.client.transport, "command", "")
    return server.id or PurePath(str(command)).name or type(server.client.transport).__name__


@asynccontextmanager
async def connected(toolsets: Sequence[AbstractToolset[Any]], agent: str, run: str) -> AsyncIterator[None]:
    """Keep the connections to an agent's servers open; opened and closed in the task that enters. Raises ServerLost."""
    opened: list[MCPToolset[Any]] = []
    try:
        for server in servers_of(toolsets):
            await _open(server, agent, run)
            opened.append(server)
        yield
    finally:
        for server in reversed(opened):
            with suppress(Exception):  # a connection that died says so again when it is closed
                await server.__aexit__(None, None, None)
            if server.client in _REVIVED and not server.is_running:
                _REVIVED.discard(server.client)
                with suppress(Exception):
                    await _close(server)


async def _open(server: MCPToolset[Any], agent: str, run: str) -> None:
    """Connect. Raises ServerLost."""
    if not server.is_running:
        _LIVES[server.client] = rouse.incarnation()
    try:
        await _patiently(server.__aenter__, server, agent)
    except Exception as error:
        raise ServerLost(
            f"the MCP server {name_of(server)} of {agent} does not start: {_said(error)}",
            hint=f"start it, or mend how it is started (a program says why on standard error); then: torpor retry {run}",
        ) from error
    try:
        await _mend([server], agent)
    except NotDone as error:
        with suppress(Exception):
            await server.__aexit__(None, None, None)
        raise ServerLost(error.message, hint=f"start it; then: torpor retry {run}") from error


async def _patiently(enter: Callable[[], Awaitable[Any]], server: MCPToolset[Any], agent: str) -> None:
    """Connect, again for as long as a server may be about to start. Raises what the last attempt raised."""
    loop = asyncio.get_running_loop()
    until = loop.time() + CONNECT_SECONDS
    words = "%s: the MCP server %s does not answer yet; it is waited for, %.0f s at most"
    slow = CONNECT_SECONDS if hasattr(server.client.transport, "command") else SAID_SECONDS  # a program takes its time
    saying = loop.call_later(slow, _LOG.warning, words, agent, name_of(server), CONNECT_SECONDS)
    try:
        while True:
            try:
                await enter()
            except Exception as error:
                if loop.time() >= until or _hopeless(error):
                    raise
                await asyncio.sleep(PAUSE_SECONDS)
            else:
                return
    finally:
        saying.cancel()


async def _close(server: MCPToolset[Any]) -> None:
    close: Callable[[], Awaitable[None]] = server.client.close
    await close()


def _hopeless(error: BaseException) -> bool:
    """Whether it would fail again: there is no such program, or it ended as soon as it began."""
    return any(isinstance(one, FileNotFoundError | PermissionError) or _code(one) == _CLOSED for one in _causes(error))


async def called(
    make: Callable[[], Awaitable[Any]], toolset: AbstractToolset[Any], tool: ToolDefinition, agent: str, *, again: bool
) -> Any:
    """Call a tool and return what it gave back; if its server dies in the call, once more if it may be called `again`.

    Raises what the call raises, ServerLost if the answer was lost, NotDone if the server could not be asked.
    """
    if not served(tool):
        return await make()
    servers = servers_of([toolset])
    while True:
        await _mend(servers, agent)
        try:
            return await make()
        except Exception as error:
            if not lost(error):
                raise
            await _look(servers)
            if not again:
                raise _loss(servers, tool, agent, error) from error
            again = False


def _loss(servers: Sequence[MCPToolset[Any]], tool: ToolDefinition, agent: str, error: BaseException) -> ServerLost:
    dead = [name_of(server) for server in servers if server.client in _LOST]
    names = ", ".join(dead or map(name_of, servers))
    return ServerLost(
        f"the MCP server {names} of {agent} went away in {tool.name}: {_said(error)}",
        hint=f"look at what {tool.name} has done there, and at why the server ended",
    )


def lost(error: BaseException) -> bool:
    """Whether an answer was lost with its connection, or did not come in time: what was asked for may have been done."""
    for one in _causes(error):
        code = _code(one)
        if code in _TIMED_OUT or (code == _CLOSED and "closed" in str(one).lower()):
            return True
        if isinstance(one, ConnectionError) or type(one).__module__.partition(".")[0] in _MODULES:
            return True
        if isinstance(one, RuntimeError) and str(one).startswith(_GONE):
            return True
    return False


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it came from. What the server itself answered, a ModelRetry without a cause, ends it."""
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()  # a group may be the context of what is in it
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, BaseExceptionGroup):
            pending += one.exceptions
        pending.append(one.__cause__ if one.__cause__ is not None or isinstance(one, ModelRetry) else one.__context__)


def _code(error: BaseException) -> Any:
    return getattr(getattr(error, "error", None), "code", None)


def _said(error: BaseException) -> str:
    causes = [str(one) for one in _causes(error) if str(one) and not isinstance(one, BaseExceptionGroup)]
    return causes[0] if causes else type(error).__name__


async def _look(servers: Sequence[MCPToolset[Any]]) -> None:
    """Find out which servers have died."""
    for server in servers:
        if server.client in _LOST:
            continue
        try:
            async with asyncio.timeout(ALIVE_SECONDS):
                await server.client.list_tools()
        except Exception:  # noqa: BLE001 - whatever it is, nobody answers there
            _LOST.add(server.client)


async def _mend(servers: Sequence[MCPToolset[Any]], agent: str) -> None:
    for server in servers:
        now = rouse.incarnation()
        if _LIVES.get(server.client, now) != now:
            _LIVES[server.client] = now
            await _doubt(server)
        if server.client in _LOST:
            await _revive(server, agent)


async def _doubt(server: MCPToolset[Any]) -> None:
    """After a rousal: is this connection any good? One over HTTP is not; a program beside this process may be."""
    transport = server.client.transport
    if hasattr(transport, "command"):
        await _look([server])
        return
    _LOST.add(server.client)
    name = getattr(transport, f"_{_ITS_NAME}", None)
    speaks = getattr(sys.modules.get(_SPEAKER[0]), _SPEAKER[1], None)
    for each in gc.get_referrers(speaks):  # kept where nobody else can reach it; it would say goodbye in that name
        if type(each) is speaks and getattr(each, _ITS_NAME, None) == name:
            setattr(each, _ITS_NAME, None)


async def _revive(server: MCPToolset[Any], agent: str) -> None:
    """Connect anew to a server that died, for everybody who uses it. Raises NotDone: it was not asked anything."""
    lock = _LOCKS.setdefault(asyncio.get_running_loop(), asyncio.Lock())
    async with lock:
        if server.client not in _LOST:
            return  # somebody else was first
        with suppress(Exception):
            await _close(server)
        try:
            await _patiently(server.client.__aenter__, server, agent)
        except Exception as error:
            raise NotDone(
                f"the MCP server {name_of(server)} of {agent} cannot be reached, so nothing was asked of it: {_said(error)}",
                hint="start it again",
            ) from error
        _LOST.discard(server.client)
        _REVIVED.add(server.client)
