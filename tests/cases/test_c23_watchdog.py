"""C23: polling is not a loop, and a loop is not always a repeat.

(a) 30 equal status calls whose answers show progress; (b) 30 equal calls with equal answers; (c) two calls in turns, without
change; (d) one call that fails the same way; (e) one silent tool of five minutes. Half-way through each the worker dies,
and the window is so small that what was said before is cut. Right: (a) and (e) are left alone; (b), (c) and (d) are flagged
within the set count, with the right reason. The run pauses and a person is asked, with nothing lost.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from pydantic_ai.exceptions import ToolFailed

from tests.agent.scripted import SEEN, agent_of, asked, forget, kept_messages, returns
from tests.patience import PATIENCE_SECONDS
from tests.worker.labs import on
from torpor import App
from torpor.testing import Place, Script, call

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab

TIMES = 30
REPEATS = 5
"""What an agent is allowed unless something is declared."""
WINDOW_TOKENS = 600
FILLER = "as it was before " * 12
"""So that a few answers fill the window."""
HELD: list[asyncio.Event] = []


def progress() -> str:
    """Say how far it is."""
    SEEN["progress"] += 1
    return f"{SEEN['progress']} of {TIMES} {FILLER}"


def status() -> str:
    """Say that nothing has changed."""
    SEEN["status"] += 1
    return f"waiting {FILLER}"


def listing() -> str:
    """Say the same, too."""
    SEEN["listing"] += 1
    return f"empty {FILLER}"


def mount(disk: int) -> str:
    """Fail the same way, whatever it is called with."""
    SEEN["mount"] += 1
    del disk
    raise ToolFailed(f"no such device {FILLER}")


async def silent() -> str:
    """Say nothing for as long as the test says."""
    SEEN["silent"] += 1
    begun, over = HELD
    begun.set()
    await over.wait()
    return "at last"


SCRIPTS = {
    "polls": Script(*[call("progress")] * TIMES, "done", model="polls"),
    "repeats": Script(*[call("status")] * TIMES, "done", model="repeats"),
    "rotates": Script(*[call("status"), call("listing")] * (TIMES // 2), "done", model="rotates"),
    "fails": Script(*(call("mount", disk=n) for n in range(TIMES)), "done", model="fails"),
    "waits": Script(call("status"), call("silent"), "done", model="waits"),
}
app = App()
TOOLS = (progress, status, listing, mount, silent)
for name, script in SCRIPTS.items():
    declared = {tool.__name__: "keyed" for tool in TOOLS}
    app.agent(name, agent_of(script, *TOOLS), safety=declared, window=WINDOW_TOKENS)

FOUND = {
    "repeats": (REPEATS, "status: called 5 times with equal arguments, and the answer was the same each time"),
    "rotates": (2 * REPEATS, "status, then listing: called in turns 5 times with equal arguments and the same answers"),
    "fails": (REPEATS, "mount: failed 5 times in a row with the same error: no such device"),
}


async def half_way(lab: Lab, turns: int) -> None:
    """Let the worker die about half-way through so many turns, each of which is five commits or so."""
    lab.crash(Place.AFTER, max(3, turns * 5 // 2))


def test_polling_is_no_loop(store: Store, moment: Moment) -> None:
    """(a) However often it is asked, an answer that goes on is progress."""
    script = SCRIPTS["polls"]
    forget(script)

    async def check(lab: Lab) -> None:
        await half_way(lab, TIMES)
        run = await lab.start("polls", "go")
        assert await lab.result(run) == "done"
        assert lab.deaths == 1
        assert SEEN == {"progress": TIMES}
        assert len(set(asked(script))) == TIMES + 1
        assert max(len(one.messages) for one in script.requests) < 2 * TIMES, "the window cut it"
        assert [content.split()[0] for _, content, _ in returns(kept_messages(lab.store, run.number))] == [
            str(n) for n in range(1, TIMES + 1)
        ]

    on(store, moment, app, check)


@pytest.mark.parametrize("name", FOUND)
def test_a_loop_is_found_in_time(store: Store, moment: Moment, name: str) -> None:
    """(b), (c), (d): after the set count, whoever counts, a person is asked; the run goes on from there, or ends."""
    script, (turns, reason) = SCRIPTS[name], FOUND[name]
    forget(script)

    async def check(lab: Lab) -> None:
        await half_way(lab, turns)
        run = await lab.start(name, "go")
        await lab.settle()
        assert lab.deaths == 1
        (wait,) = await lab.waits(run)
        assert wait.kind == "question"
        assert reason in wait.title
        assert sorted(set(asked(script))) == list(range(turns)), "the model was not asked once more"
        assert sum(SEEN.values()) == turns
        await lab.answer(wait, value="go on")
        await lab.settle()
        kept = returns(kept_messages(lab.store, run.number))
        assert len(kept) == 2 * turns - 1, "with nothing lost: what is asked about now is in the open turn"
        assert sum(SEEN.values()) == 2 * turns
        (wait,) = await lab.waits(run)
        assert reason in wait.title

    on(store, moment, app, check)


def test_a_silent_tool_is_left_alone(store: Store, moment: Moment) -> None:
    """(e) Five minutes without a word, a worker that dies in the middle of it: nobody is asked."""
    script = SCRIPTS["waits"]
    forget(script)
    HELD[:] = [asyncio.Event(), asyncio.Event()]

    async def check(lab: Lab) -> None:
        await lab.worker()
        run = await lab.start("waits", "go")
        await asyncio.wait_for(HELD[0].wait(), PATIENCE_SECONDS)
        lab.advance(150)
        await lab.kill()
        HELD[0].clear()
        settling = asyncio.create_task(lab.settle())
        await asyncio.wait_for(HELD[0].wait(), PATIENCE_SECONDS)
        lab.advance(150)
        HELD[1].set()
        await settling
        assert await lab.result(run) == "done"
        assert await lab.waits(run) == []
        assert SEEN == {"status": 1, "silent": 2}

    on(store, moment, app, check, lease_seconds=3600.0)
