"""What it costs to make an agent durable: beside the same agent without torpor, in turn, on SQLite and on PostgreSQL.

    python bench/agents.py [overhead] [stored] [resumed] [crowd] [--turns 200] [--pairs 5] [--agents 500] [--store postgres]

A turn is one model answer and one repeatable tool call. The model is a function of pydantic-ai's own `FunctionModel`, so
nothing but the driving is measured: of pydantic-ai alone, and of pydantic-ai with torpor around it. Then:

    overhead    ms a turn more than `await agent.run(...)`, median of pairs measured in turn (A B A B)
    stored      bytes in the store for each byte that tools gave back, 300 turns of 1 KB each, and of a second such run
    resumed     ms from a message to the model call that hears it, by a worker that never had the run, after 50 and after 5,000
                messages of some 200 bytes each, with a window of 4,000 tokens
    crowd       MiB that one worker grows by while so many agents are in their first tool at once, and after their ends
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import time
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from pydantic_ai import Agent, ModelResponse, TextPart, ToolCallPart, UsageLimits
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage

from torpor import App
from torpor.bench.conditions import conditions, rss_mb
from torpor.bench.parent import make_known
from torpor.bench.places import fresh
from torpor.client import Client
from torpor.runtime import Process, opened, tune

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models.function import AgentInfo

    from torpor.bench.places import Place
    from torpor.store.protocol import Store

KILOBYTE = 1_000
STORED_TURNS = 300
TENDED_TURNS = 75
"""Of 300 turns, three entries each: autovacuum begins when 50 rows and a fifth of the table are dead."""
HISTORIES = (50, 5_000)
WINDOW_TOKENS = 4_000
WAKES = 9


class Turns(FunctionModel):
    """A model that calls the tool so many times after each thing that is said, and then answers."""

    def __init__(self, turns: int, tend: Callable[[], None] = bool) -> None:
        """Begin. `tend` is called each time that so many turns were done as a server lets pass between two vacuums."""
        super().__init__(self._answer)
        self._turns = turns
        self._tend = tend
        self._done = 0
        self.asked_at = 0.0
        """When it was asked last, by `time.perf_counter`."""

    def _answer(self, _messages: list[ModelMessage], _agent: AgentInfo) -> ModelResponse:
        self.asked_at = time.perf_counter()
        ends = self._done == self._turns
        self._done = 0 if ends else self._done + 1
        if self._done % TENDED_TURNS == 0:
            self._tend()
        part = TextPart("done") if ends else ToolCallPart("look", {"n": self._done})
        return ModelResponse([part], usage=RequestUsage(input_tokens=100, output_tokens=20))


def _text(n: int, letters: int) -> str:
    """Return so many letters of this repository's documentation, from another place for each number: text packs so."""
    text = _documentation()
    place = random.Random(n).randrange(len(text) - letters)  # noqa: S311 - not for secrets
    return f"{n:06} {text[place : place + letters - 7]}"


@cache
def _documentation() -> str:
    docs = Path(__file__).parent.parent / "docs"
    return "".join(path.read_text("utf-8") for path in sorted(docs.glob("*.md")))


def agent_of(model: FunctionModel, letters: int = 200) -> Agent[None, str]:
    """Return an agent with a tool that gives back so many letters."""
    agent = Agent(model)

    @agent.tool_plain
    async def look(n: int) -> str:
        """Look."""
        return _text(n, letters)

    return agent


@asynccontextmanager
async def working(store: Store, app: App, **options: Any) -> AsyncIterator[Client]:
    """Let a worker and a waker go on in this process."""
    process = Process(store, app, **options)
    going = asyncio.create_task(process.run())
    try:
        yield Client(store)
    finally:
        process.worker.stop()
        await going


async def durable_seconds(place: Place, turns: int, letters: int = 200, tend: Callable[[], None] = bool) -> float:
    """Return how long a durable agent takes for its turns, from its start to its end."""
    app = App()
    app.agent("looker", agent_of(Turns(turns, tend), letters), safety={"look": "repeatable"}, watchdog=None)
    async with opened(place.url) as store:
        await make_known(store, app)
        async with working(store, app) as client:
            began = time.perf_counter()
            started = await client.start("looker", "go")
            await client.result(started.run_id)
            return time.perf_counter() - began


async def bare_seconds(turns: int) -> float:
    """Return how long the same agent takes without torpor."""
    agent = agent_of(Turns(turns))
    began = time.perf_counter()
    await agent.run("go", usage_limits=UsageLimits(request_limit=None))
    return time.perf_counter() - began


def overhead(store: str, turns: int, pairs: int) -> dict[str, Any]:
    """Measure ms a turn, bare and durable in turn."""
    bare, durable = [], []
    with fresh(store) as place:
        for _ in range(pairs):
            bare.append(1e3 * asyncio.run(bare_seconds(turns)) / turns)
            durable.append(1e3 * asyncio.run(durable_seconds(place, turns)) / turns)
        extra = [one - other for one, other in zip(durable, bare, strict=True)]
        row = {"bare_ms": _three(bare), "durable_ms": _three(durable), "overhead_ms": _three(extra)}
        return {"w": "agent overhead", "peer": place.peer, "turns": turns, **row, **conditions(place)}


def _three(values: list[float]) -> list[float]:
    """Return least, median and most."""
    return [round(value, 3) for value in (min(values), median(values), max(values))]


def stored(store: str) -> dict[str, Any]:
    """Measure what 300 turns of 1 KB each leave, all indexes included and the log brought back; and what as many more leave.

    A server vacuums once a minute at most, and these turns take a few seconds: it is told to, as often in 300 turns as it
    would of its own.
    """
    with fresh(store) as place:
        asyncio.run(_make_store(place.url))
        sizes, to = [place.size_bytes()], place.copying()
        for _ in range(2):
            asyncio.run(durable_seconds(place, STORED_TURNS, KILOBYTE, to.settle))
            to.settle()
            sizes.append(place.size_bytes())
        to.close()
        first, second = sizes[1] - sizes[0], sizes[2] - sizes[1]
        payload = STORED_TURNS * KILOBYTE
        row: dict[str, Any] = {"stored_bytes": first, "second_bytes": second, "payload_bytes": payload}
        row |= {"times_payload": round(first / payload, 3), "second_times": round(second / payload, 3)}
        row["payload"] = "1,000 letters from somewhere in docs/*.md, other ones in each turn"
        return {"w": "agent stored", "peer": place.peer, **row, **conditions(place)}


async def _make_store(url: str) -> None:
    app = App()
    app.agent("looker", agent_of(Turns(1)), safety={"look": "repeatable"})
    async with opened(url) as store:
        await make_known(store, app)


async def _woken_ms(place: Place, messages: int) -> list[float]:
    """Let a conversation come to so many messages; then wake it again and again, each time in a worker of its own."""
    model = Turns(messages // 2 - 1)
    agent = agent_of(model)
    app = App()
    app.agent("talker", agent, safety={"look": "repeatable"}, conversation=True, window=WINDOW_TOKENS, watchdog=None)
    took = []
    async with opened(place.url) as store:
        await make_known(store, app)
        async with working(store, app) as client:
            run = (await client.start("talker", "go")).run_id
            await _asleep(client, run)
        model._turns = 0  # noqa: SLF001 - from now on it answers at once
        for _ in range(WAKES):
            async with working(store, app) as client:
                await asyncio.sleep(1)  # the worker is there, and what it does at its start is done
                before = time.perf_counter()
                await client.signal(run, "message", "and now?")
                while model.asked_at < before:  # noqa: ASYNC110 - an event would measure the event as well
                    await asyncio.sleep(0.0005)
                took.append(1e3 * (model.asked_at - before))
                await _asleep(client, run)
    return took


async def _asleep(client: Client, run: str) -> None:
    while (await client.show(run)).line.state != "waiting":  # noqa: ASYNC110 - it is in the store
        await asyncio.sleep(0.01)


def resumed(store: str, histories: tuple[int, int] = HISTORIES) -> dict[str, Any]:
    """Measure ms from a message to the model call that hears it, after few messages and after many."""
    with fresh(store) as place:
        few, many = (_three(asyncio.run(_woken_ms(place, messages))) for messages in histories)
        row = {"few_ms": few, "many_ms": many, "times": round(many[1] / few[1], 3), "window_tokens": WINDOW_TOKENS}
        return {"w": "agent resumed", "peer": place.peer, "messages": histories, **row, **conditions(place)}


async def _crowd(place: Place, agents: int) -> dict[str, float]:
    """Let so many agents be in their tool at once in one worker."""
    inside, everybody = 0, asyncio.Event()
    agent = Agent(Turns(1))
    app = App()

    @agent.tool_plain
    async def look(n: int) -> str:
        """Look, when all others look as well."""
        nonlocal inside
        inside += 1
        if inside == agents:
            everybody.set()
        await everybody.wait()
        return f"{n}"

    def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        answered = any(isinstance(message, ModelResponse) for message in messages)
        part = TextPart("done") if answered else ToolCallPart("look", {"n": 1})
        return ModelResponse([part], usage=RequestUsage(input_tokens=100, output_tokens=20))

    agent.model = FunctionModel(answer)
    app.agent("looker", agent, safety={"look": "repeatable"})
    async with opened(place.url) as store:
        await make_known(store, app)
        async with working(store, app, concurrency=agents) as client:
            await client.result((await client.start("looker", "warm up")).run_id) if agents == 1 else None
            before = rss_mb()
            began = time.perf_counter()
            runs = [(await client.start("looker", "go")).run_id for _ in range(agents)]
            await everybody.wait()
            together = rss_mb()
            for run in runs:
                await client.result(run)
            seconds = time.perf_counter() - began
            gc.collect()
            return {"before_mb": before, "together_mb": together, "after_mb": rss_mb(), "secs": round(seconds, 2)}


def crowd(store: str, agents: int) -> dict[str, Any]:
    """Measure the memory of a worker with so many agents at once."""
    with fresh(store) as place:
        asyncio.run(_crowd(place, 1))  # what is loaded once is loaded
    with fresh(store) as place:
        found = asyncio.run(_crowd(place, agents))
        each = round(1024 * (found["together_mb"] - found["before_mb"]) / agents, 1)
        return {"w": "agent crowd", "peer": place.peer, "agents": agents, "kb_each": each, **found, **conditions(place)}


def main() -> None:
    """Measure what is asked for; a row for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("what", nargs="*", default=["overhead", "stored", "resumed", "crowd"])
    parser.add_argument("--store", default="sqlite", help="sqlite, a server's URL, or postgres: one of its own")
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--agents", type=int, default=500)
    parser.add_argument("--many", type=int, default=HISTORIES[1], help="messages of the long conversation")
    asked = parser.parse_args()
    if asked.store == "postgres":
        from server import server

        with server("") as url:
            asked.store = url
            _measure(asked)
    else:
        _measure(asked)


def _measure(asked: argparse.Namespace) -> None:
    tune()
    ways = {
        "overhead": lambda: overhead(asked.store, asked.turns, asked.pairs),
        "stored": lambda: stored(asked.store),
        "resumed": lambda: resumed(asked.store, (HISTORIES[0], asked.many)),
        "crowd": lambda: crowd(asked.store, asked.agents),
    }
    for what in asked.what:
        print(json.dumps(ways[what]()), flush=True)


if __name__ == "__main__":
    main()
