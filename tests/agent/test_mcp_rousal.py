"""MCP servers after a rousal: no connection of another life is used, and nobody says goodbye on one."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest
from pydantic_ai import ToolDefinition
from pydantic_ai.mcp import MCPToolset

from tests.agent.shop_of_old import OldShop
from tests.agent.shops import Shop
from tests.patience import PATIENCE_SECONDS
from torpor.agent import servers
from torpor.errors import ServerLost

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow
BUY = ToolDefinition(name="buy", metadata=dict.fromkeys(("annotations", "meta", "task")))
"""As a server of MCP is told of."""
room: Any = sys.modules["torpor.rouse.incarnation"]  # `rouse.incarnation` is the function


@pytest.fixture
def forgetful(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether nobody doubts a server after a rousal: without the cure."""

    async def believe(_server: Any) -> None:
        """Do nothing."""

    if request.param:
        monkeypatch.setattr("torpor.agent.servers._doubt", believe)
    return bool(request.param)


@pytest.fixture
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    """Return a server, which ends with the test."""
    shop = Shop(tmp_path, request.param)
    yield shop
    shop.end()


def rousal() -> None:
    """Be in another life from here on."""
    room.end(room.incarnation())


async def buys(toolset: Any) -> str:
    """Call a tool that counts as `once`, as an agent does."""

    async def call() -> str:
        return str(await toolset.client.call_tool("buy", {}))

    return str(await servers.called(call, toolset, BUY, "keeper", again=False))


@pytest.mark.parametrize("forgetful", [True, False], indirect=True)
def test_over_http_it_is_made_anew(*, forgetful: bool) -> None:
    """Two copies would speak under one id; the old one is left without a word, for the other copy may still use it."""

    async def check(shop: OldShop) -> None:
        toolset: Any = MCPToolset(shop.url, id="shop", init_timeout=PATIENCE_SECONDS)
        async with servers.connected([toolset], "keeper", "run"):
            for _ in range(2):
                await buys(toolset)
                rousal()
            last = await buys(toolset)
            assert "bought" in last
            assert shop.goodbyes == []
        assert shop.bought == ["session 1", *(["session 1", "session 1"] if forgetful else ["session 2", "session 3"])]
        assert shop.goodbyes == shop.bought[-1:], "in its own life it says goodbye"

    with OldShop() as shop:
        asyncio.run(check(shop))


@pytest.mark.parametrize("shop", ["stdio"], indirect=True)
@pytest.mark.parametrize("forgetful", [True, False], indirect=True)
def test_a_program_that_is_gone_is_started_anew(shop: Shop, *, forgetful: bool) -> None:
    """It ended while we slept. Asked before it is called, so a `once` call is made once, and no person is asked about it."""

    async def check() -> None:
        toolset: Any = shop.toolset()
        async with servers.connected([toolset], "keeper", "run"):
            await buys(toolset)
            os.kill(int(shop.pids[0]), signal.SIGKILL)
            rousal()
            if forgetful:
                with pytest.raises(ServerLost):
                    await buys(toolset)
                assert shop.acts == ["buy"]
            else:
                await buys(toolset)
                assert shop.acts == ["buy", "buy"]
                assert len(set(shop.pids)) == 2

    asyncio.run(check())


@pytest.mark.parametrize("shop", ["stdio"], indirect=True)
def test_a_program_that_lives_is_kept(shop: Shop) -> None:
    """It is this machine's, and went through the same."""

    async def check() -> None:
        toolset: Any = shop.toolset()
        async with servers.connected([toolset], "keeper", "run"):
            for _ in range(3):
                await buys(toolset)
                rousal()
        assert len(set(shop.pids)) == 1

    asyncio.run(check())
