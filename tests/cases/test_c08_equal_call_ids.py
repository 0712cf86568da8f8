"""C08: two tool calls in one turn share an id, or have none.

The model calls read(a) and read(b), both as "call_0"; then the same with empty ids; then so with one that needs consent. The
worker is killed wherever that can be. Right: each runs once, results match their calls, the next request is accepted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic_ai import ToolCallPart

from tests.agent.scripted import SEEN, agent_of, asked, forget, results
from tests.worker.labs import on
from torpor import App
from torpor.testing import Place, Script

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab, Run

pytestmark = pytest.mark.slow


def read(path: str) -> str:
    """Read a file."""
    SEEN[f"read {path}"] += 1
    return f"text of {path}"


def calls(call_id: str) -> list[ToolCallPart]:
    """Return two calls under one id."""
    return [ToolCallPart("read", {"path": path}, tool_call_id=call_id) for path in "ab"]


app = App()
SCRIPTS = {"same": Script(calls("call_0"), calls("call_0"), "done"), "none": Script(calls(""), calls(""), "done")}
for name, script in SCRIPTS.items():
    app.agent(name, agent_of(script, read), approve={"read": lambda path: path == "b"}, safety={"read": "keyed"})


async def approve(lab: Lab, run: Run) -> None:
    """Approve whatever is asked."""
    await lab.settle()
    while waits := await lab.waits(run):
        await lab.approve(waits[0], by="ada")
        await lab.settle()


@pytest.mark.parametrize("ids", SCRIPTS)
def test_each_call_runs_and_has_its_own_result(store: Store, moment: Moment, ids: str) -> None:
    """A provider's id is nothing that torpor knows a call by."""
    script = SCRIPTS[ids]

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(ids, "read", drive=approve, before=lambda: forget(script)):
            assert await crash.result() == "done", crash
            again = crash.place not in {Place.UNDISTURBED, Place.AFTER}
            assert 4 <= sum(SEEN.values()) <= 4 + again, (crash, SEEN)
            both = [("read", "text of a", "success"), ("read", "text of b", "success")]
            assert results(script) == both * 2, crash
            assert set(asked(script)) == {0, 1, 2}, crash

    on(store, moment, app, check)
