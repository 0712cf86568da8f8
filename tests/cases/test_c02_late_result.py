"""C02: a tool result arrives after its call was cut out of the window.

One turn issues three parallel calls that take 1, 5 and 60 s, in a conversation that is longer than its window. After 10 s
what was said before is cut, after 30 s the worker dies, after 60 s the last result is there. Right: no request is ever
refused (strict provider). The third result reaches the model exactly once, in its pair, and the open calls are kept. What
the model is sent is the same as without the death.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.agent.scripted import SEEN, agent_of, asked, forget, results
from tests.patience import PATIENCE_SECONDS
from tests.worker.labs import on
from torpor import App
from torpor.testing import Script, call
from torpor.testing.pairing import unpaired

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab, Run

BEFORE = 12
WINDOW_TOKENS = 700
OVER: dict[int, asyncio.Event] = {}
BEGUN: dict[int, asyncio.Event] = {}


def fill(page: int) -> str:
    """Say much."""
    return f"page {page} " + "of a long story " * 20


async def work(seconds: int) -> str:
    """Work until the test says that so many seconds are over."""
    SEEN[f"work {seconds}"] += 1
    BEGUN[seconds].set()
    await OVER[seconds].wait()
    return f"{seconds} seconds of work, " + "and what came of it " * 30


SCRIPT = Script(
    *(call("fill", page=page) for page in range(BEFORE)),
    [call("work", seconds=seconds) for seconds in (1, 5, 60)],
    call("fill", page=99),
    "done",
)
app = App()
app.agent("busy", agent_of(SCRIPT, fill, work), safety={"fill": "repeatable", "work": "keyed"}, window=WINDOW_TOKENS)


def sent() -> list[list[list[Any]]]:
    """Return what each request said, by its place in the script, without what differs from run to run."""
    said = {one.number: one.messages for one in SCRIPT.requests}
    return [
        [
            [getattr(part, "content", None) or getattr(part, "args", None) for part in message.parts]
            for message in said[n]
        ]
        for n in sorted(said)
    ]


async def recorded(lab: Lab, run: Run) -> int:
    """Return how many pieces of work have an outcome on record."""
    return len([line for line in await lab.journal(run) if line.kind == "outcome" and line.key.startswith("work")])


async def three_calls(lab: Lab, *, dies: bool) -> list[list[list[Any]]]:
    """Play the whole case; return what the model was sent."""
    forget(SCRIPT)
    for seconds in (1, 5, 60):
        OVER[seconds], BEGUN[seconds] = asyncio.Event(), asyncio.Event()
    await lab.worker()
    run = await lab.start("busy", "tell me a long story")
    for event in BEGUN.values():
        await asyncio.wait_for(event.wait(), PATIENCE_SECONDS)
    lab.advance(1)
    OVER[1].set()
    lab.advance(4)
    OVER[5].set()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await recorded(lab, run) < 2:
            continue  # each look waits for the store
    lab.advance(25)
    if dies:
        BEGUN[60].clear()
        await lab.kill()
    settling = asyncio.create_task(lab.settle())
    await asyncio.wait_for(BEGUN[60].wait(), PATIENCE_SECONDS)
    lab.advance(30)
    OVER[60].set()
    await settling
    assert await lab.result(run) == "done"
    assert {"work 1": 1, "work 5": 1, "work 60": 1 + dies} == SEEN
    assert asked(SCRIPT) == list(range(BEFORE + 3)), "each answer was asked for once"
    assert [unpaired(one.messages) for one in SCRIPT.requests if unpaired(one.messages)] == []
    assert min(len(one.messages) for one in SCRIPT.requests[BEFORE:]) < 2 * BEFORE, "it was cut"
    works = [content.split(" ")[0] for name, content, _ in results_of(BEFORE + 1) if name == "work"]
    assert works == ["1", "5", "60"], "all three, once, in call order"
    return sent()


def results_of(number: int) -> list[tuple[str, Any, str]]:
    """Return the results in one request."""
    kept = list(SCRIPT.requests)
    SCRIPT.requests[:] = [one for one in kept if one.number == number]
    found = results(SCRIPT)
    SCRIPT.requests[:] = kept
    return found


def test_a_late_result_finds_its_call(store: Store, moment: Moment) -> None:
    """Whoever has the run when it comes; what is sent is the same as if nothing had happened."""

    async def check(lab: Lab) -> None:
        assert await three_calls(lab, dies=True) == await three_calls(lab, dies=False)

    on(store, moment, app, check, lease_seconds=3600.0)
