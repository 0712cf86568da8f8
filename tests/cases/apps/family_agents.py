"""A family of agents, in the parts that `family` plays: each child is a call of a tool of its parent's.

What is not an agent is asleep on a timer: no agent waits for time by itself.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pydantic_ai import Agent

from tests.cases.apps import family
from tests.cases.telling import tell_softly
from torpor import App, ToolContext
from torpor.testing import Script, call

if TYPE_CHECKING:
    from collections.abc import Sequence

app = App()
_role = os.environ[family.ROLE]


@app.tool(safety="repeatable")
async def tool() -> Any:
    """Work until the test answers."""
    return await tell_softly("tool")


@app.tool(safety="once")
async def charge(ctx: ToolContext) -> Any:
    """Act."""
    return await tell_softly("act", key=ctx.key)


@app.tool(approve=True)
async def pay(ctx: ToolContext) -> Any:
    """Act on consent."""
    return await tell_softly("act", key=ctx.key)


_agents: dict[str, tuple[Sequence[Any], Sequence[Any]]] = {
    "asks": ([call("pay"), "paid"], [pay]),
    "middle": ([call("asks", prompt="go"), "done"], [app.delegate("asks")]),
    "uses": ([call("tool"), call("asks", prompt="go"), call("charge"), "done"], [tool, app.delegate("asks"), charge]),
    "queued": ([call("charge"), "done"], [charge]),
    "parent": (
        [[call(name, prompt="go") for name in ("naps", "middle", "queued", "uses")], "done"],
        [app.delegate(name) for name in ("naps", "middle", "queued", "uses")],
    ),
}
_served = {
    "works": ("asks", "middle", "uses", "parent", "naps"),
    "cascades": (),
    "restarted": ("asks", "middle", "uses", "parent", "queued", "naps"),
}
for name in _served[_role]:
    if name == "naps":
        app.flow(family.naps)
    else:
        answers, tools = _agents[name]
        app.agent(name, Agent(Script(*answers, model=name), tools=tools))
if not _served[_role]:
    app.flow(family.idle)
