"""The people of a world: those who start runs, send signals, answer, cancel, go back, mend and retry. All through `Client`.

They meet the same database as the workers: an answer may be lost, so whoever sends says the same again under the same key.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from tests.simulation.process import pause
from tests.simulation.programs import approves
from torpor.client import Client
from torpor.core.ids import parse_run
from torpor.core.run import State
from torpor.errors import Conflict, NotFound, StoreUnavailable, UsageError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine

    from tests.simulation.plans import Operation, Wanted
    from tests.simulation.programs import Act
    from tests.simulation.world import World
    from torpor.engine.queries.people import InboxItem

T = TypeVar("T")
AGAIN = 20
"""How often something is said again to a run that seems to have ended."""


class People:
    """Everybody who is no worker, in one process."""

    def __init__(self, world: World) -> None:
        """Know the world they live in."""
        self._world = world
        self._client = Client(world.people_link)
        self._tasks: set[asyncio.Task[Any]] = set()
        self.runs: dict[int, str] = {}
        """The runs that were started, by their number in the plan."""
        self._started = [asyncio.Event() for _ in world.plan.wanted]
        self.forks: list[tuple[int, str]] = []
        self._speaking = 0
        self._answered: dict[str, int] = {}
        """How often each token was tried, `AGAIN` times if it was taken."""
        self.again: dict[str, int] = {}
        """How often somebody said of an effect that it is to be done again, by its key."""
        self.troubles: list[str] = []
        self.acknowledged: dict[str, int] = {}
        """When a run's cancel was acknowledged: the place of the event."""

    @property
    def busy(self) -> int:
        """How many have something to say yet, those included who were handed a token."""
        return self._speaking + sum(self._answered.get(token, 0) < AGAIN for token in self._world.outside.tokens)

    def begin(self) -> None:
        """Start everybody."""
        for number, wanted in enumerate(self._world.plan.wanted):
            self._spawn(self._start(number, wanted))
        for operation in self._world.plan.operations:
            self._spawn(self._operate(operation))
        for name in ("op-a", "op-b"):
            task = asyncio.get_running_loop().create_task(self._decide(name))
            self._tasks.add(task)
        self._tasks.add(asyncio.get_running_loop().create_task(self._call_back()))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._speaking += 1
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._speaking -= 1
        if not task.cancelled() and (error := task.exception()) is not None:
            self.troubles.append(f"somebody fell over: {error!r}")

    async def _patiently(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Say something again until the store has answered."""
        while True:
            try:
                return await ask()
            except StoreUnavailable:
                await pause(0.4)

    # starting, sending

    async def _start(self, number: int, wanted: Wanted) -> None:
        await pause(wanted.at)
        client, script = self._client, wanted.script
        more: dict[str, Any] = {"tenant": wanted.tenant, "priority": wanted.priority, "line": wanted.line}
        if wanted.deadline:
            more["deadline"] = timedelta(seconds=wanted.deadline)
        if wanted.budget:
            more["budget"] = "0.03"
        started = await self._patiently(lambda: client.start("play", script, key=script.label, **more))
        self.runs[number] = started.run_id
        self._started[number].set()
        for act in wanted.acts():
            if act.kind == "receive":
                for sender in range(min(wanted.senders, act.n)):
                    self._spawn(self._send(started.run_id, act, sender, wanted.senders))
            elif act.kind == "race":
                self._spawn(self._signal_once(started.run_id, act))
            elif act.kind == "event":
                self._spawn(self._publish(act))

    def _chance(self, what: str) -> random.Random:
        return self._world.machines.chance(what)

    async def _send(self, run: str, act: Act, sender: int, senders: int) -> None:
        """Send a run everything that one sender has for it, in order."""
        chance = self._chance(f"{act.tag} {sender}")
        for n, _ in enumerate(range(sender, act.n, min(senders, act.n))):
            await pause(chance.random() * chance.choice((0.01, 3)))
            key, name = f"{act.tag} {sender} {n}", f"s{sender}"
            if not await self._signal(run, act.tag, n, key=key, sender=name):
                return

    async def _signal_once(self, run: str, act: Act) -> None:
        chance = self._chance(act.tag)
        await pause(chance.random() * (act.n + 6))
        await self._signal(run, act.tag, act.n, key=act.tag)

    async def _signal(self, run: str, name: str, value: Any, **more: Any) -> bool:
        """Send a signal; one to a run that has failed again a little later: somebody retries it. False: it has ended."""
        for _ in range(AGAIN):
            try:
                await self._patiently(lambda: self._client.signal(run, name, value, **more))
            except Conflict:
                await pause(1)
            else:
                return True
        return False

    async def _publish(self, act: Act) -> None:
        await pause(self._chance(act.tag).random() * 6)
        await self._patiently(lambda: self._client.publish("booked", {"tag": act.tag, "n": act.n}, key=act.tag))

    async def _call_back(self) -> None:
        """Answer every callback that is handed out, some of them twice."""
        answered = self._answered
        by_tag = {act.tag: act for wanted in self._world.plan.wanted for act in wanted.acts()}
        while True:
            await pause(0.7)
            for token, tag in list(self._world.outside.tokens.items()):
                if answered.get(token, 0) < AGAIN:
                    try:
                        await self._client.deliver(token, by_tag[tag].n)
                        if self._chance(tag).random() < 0.5:
                            await self._client.deliver(token, by_tag[tag].n)
                        answered[token] = AGAIN
                    except StoreUnavailable:
                        continue
                    except (Conflict, NotFound):  # its run may have failed, and be retried
                        answered[token] = answered.get(token, 0) + 1

    # operations

    async def _operate(self, operation: Operation) -> None:
        await pause(operation.at)
        await self._started[operation.run].wait()
        run, client = self.runs[operation.run], self._client
        chance = self._chance(f"{operation}")
        try:
            match operation.kind:
                case "cancel":
                    await self._patiently(lambda: client.cancel(run, reason="no more"))
                    self.acknowledged[run] = self._world.machines.schedule.events
                case "interrupt":
                    await self._patiently(lambda: client.interrupt(run, by="op", key=f"{operation.at}"))
                case "rewind":
                    checkpoint = await self._checkpoint(run, chance)
                    await client.rewind(run, at=checkpoint, by="op")
                case _:
                    checkpoint = await self._checkpoint(run, chance)
                    forked = await client.fork(run, at=checkpoint, by="op")
                    self.forks.append((operation.run, forked.run_id))
        except (Conflict, NotFound, UsageError, StoreUnavailable) as error:
            self._world.history.note("people", f"{operation.kind} {run}: {error}")

    async def _checkpoint(self, run: str, chance: random.Random) -> int:
        shown = await self._patiently(lambda: self._client.show(run))
        kept = [one.checkpoint for one in shown.history.checkpoints]
        return chance.choice([*kept, 0])

    # deciding

    async def _decide(self, name: str) -> None:
        """Look into the inbox again and again, and decide what is in it; retry what failed."""
        chance = self._chance(name)
        while True:
            await pause(0.5 + chance.random() * 3)
            try:
                found = await self._client.inbox()
                for item in chance.sample(found.items, len(found.items)):
                    if chance.random() < 0.8:
                        await self._settle(name, item)
                await self._retry(name)
            except (Conflict, NotFound, UsageError, StoreUnavailable) as error:
                self._world.history.note("people", f"{name}: {type(error).__name__} {error}")

    async def _settle(self, name: str, item: InboxItem) -> None:
        client = self._client
        try:
            match item.asks:
                case "approve":
                    tag = item.what.split()[1].rstrip("?")
                    if approves(tag):
                        await client.approve(item.wait, by=name, digest=item.digest)
                    else:
                        await client.deny(item.wait, by=name)
                case "answer":
                    tag = item.what.split()[1].rstrip("?")
                    await client.answer(item.wait, by=name, value="ab"[approves(tag)])
                case "settle":
                    await self._settle_effect(name, item)
                case "budget":
                    await client.raise_budget(item.wait, "0.05", by=name)
                case _:
                    if "poison" not in str(item.content) and "ended" not in str(item.content):
                        self.troubles.append(f"{item.run} {item.what} {item.content}")
                    await client.answer(item.wait, by=name, again=True)
        except Conflict:
            return

    async def _settle_effect(self, name: str, item: InboxItem) -> None:
        """Say what became of an effect: what the outside knows; to do it again only if nobody may still start it."""
        key = item.content["key"]
        if key in self._world.outside.results:
            await self._client.answer(item.wait, by=name, happened=self._world.outside.results[key])
        elif not self._world.may_still_start(parse_run(item.run)[1]):
            self.again[key] = self.again.get(key, 0) + 1
            await self._client.answer(item.wait, by=name, again=True)

    async def _retry(self, name: str) -> None:
        for run in await self._client.list(states=[State.FAILED], limit=50):
            for act in (act for wanted in self._world.plan.wanted for act in wanted.acts()):
                if act.kind == "fragile":
                    self._world.outside.mended.add(act.tag)
            try:
                await self._client.retry(run.run, by=name)
            except Conflict as error:
                self._world.history.note("people", f"retry {run.run}: {error}")
