"""Agents of the cases, whose model is a script: what it says next is read from the messages, in whichever process."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic_ai import Agent

from tests.cases import ahead
from tests.cases.telling import tell_softly
from torpor import App, ToolContext
from torpor.testing import Script, call

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models.function import AgentInfo

    from torpor.testing.script import Call

IGNORES_SECONDS = 10.0
ahead.follow()
app = App()


@app.tool
async def write(folder: str) -> str:
    """Write two files, ten seconds apart, and ignore whoever wants to stop it in between."""
    Path(folder, "1").write_text("1", encoding="utf-8")  # noqa: ASYNC240 - a small file
    await tell_softly("begun")
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + IGNORES_SECONDS
    while (left := ends_at - loop.time()) > 0:
        with suppress(asyncio.CancelledError, TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), left)
    Path(folder, "2").write_text("2", encoding="utf-8")  # noqa: ASYNC240 - a small file
    return "both are written"


@app.tool(safety="keyed", approve=True)
async def act(ctx: ToolContext, what: str) -> str:
    """Act on consent."""
    await tell_softly("act", key=ctx.key, what=what)
    return f"acted on {what}"


def _prompt(messages: list[ModelMessage]) -> str:
    return str(getattr(messages[0].parts[-1], "content", ""))


def _writes(messages: list[ModelMessage], _agent: AgentInfo) -> Call:
    return call("write", folder=_prompt(messages))


def _acts(messages: list[ModelMessage], _agent: AgentInfo) -> Call:
    return call("act", what=_prompt(messages))


app.agent("writer", Agent(Script(_writes, "then I leave it", "it may be there"), tools=[write]), conversation=True)
app.agent("consents", Agent(Script(_acts, "done"), tools=[act]))
