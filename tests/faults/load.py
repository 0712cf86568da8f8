"""The load of a trial: whoever starts runs, sends them messages, cancels some, and the person who answers.

All of them are careful people outside torpor: a call that found no store is repeated, with the same key; what was
acknowledged is written into the history and never done again.
"""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from tests.faults import plans
from torpor.core.journal import Kind
from torpor.core.lease import Proof
from torpor.engine.decisions import find_run
from torpor.errors import Conflict, NotFound, StoreError
from torpor.store import values
from torpor.store.protocol import Lane

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.faults.history import History
    from tests.faults.outside import Outside
    from tests.faults.plans import Plan
    from torpor.client import Client
    from torpor.engine.queries.people import InboxItem
    from torpor.store.protocol import Tx

T = TypeVar("T")
AGAIN_SECONDS = 0.2
TENANT = "trial"
BY = "ada"


class Load:
    """Everybody outside. `open_runs` are those that nobody has seen at their end."""

    def __init__(self, client: Client, outside: Outside, history: History, seed: int) -> None:
        """Begin with no run."""
        self.client, self._outside, self._history = client, outside, history
        self._random = Random(f"load {seed}")  # noqa: S311 - a load that can be repeated
        self._drawn = 0
        self._groups: set[asyncio.Task[None]] = set()
        self.open_runs: dict[str, str] = {}
        self.starting = 0
        self.undecided: set[str] = set()
        """Questions about effects that may still start, as long as a worker lives that began them."""
        self.ending = asyncio.Event()
        """Set when nobody is to look after anything any more."""

    # starting

    def begin(self) -> None:
        """Start the next run, with whoever sends it messages."""
        plan = plans.draw(self._random, self._drawn)
        self._drawn += 1
        self.starting += 1
        self._history.add("planned", key=plan.key, acts=plan.turns, messages=plan.messages)
        group = asyncio.create_task(self._see_through(plan))
        self._groups.add(group)
        group.add_done_callback(self._groups.discard)

    async def _see_through(self, plan: Plan) -> None:
        place = plan.key.removeprefix("r")
        state = {"place": place, "turns": plan.turns}
        started = await self._until_done(lambda: self.client.start("errand", state, key=plan.key, tenant=TENANT))
        self._history.add("started", key=plan.key, run=started.run_id)
        self.open_runs[started.run_id] = plan.key
        self.starting -= 1
        await asyncio.gather(*(self._send(started.run_id, name, n) for name, n in plan.messages.items()))
        if plan.cancel:
            await self._cancel(started.run_id)

    async def _send(self, run: str, sender: str, count: int) -> None:
        for n in range(1, count + 1):
            message = partial(self.client.signal, run, "note", n, key=f"{sender}-{n}", sender=sender)
            try:
                await self._until_done(message)
            except Conflict:  # it has ended, which the checks may wonder about
                return
            self._history.add("sent", run=run, sender=sender, n=n)

    async def _cancel(self, run: str) -> None:
        await self._until_done(lambda: self.client.cancel(run, reason="as planned"))
        head = await self._until_done(lambda: self.client.store.transact(_head, run))
        self._history.add("cancelled", run=run, head=head)

    async def _until_done(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        while True:
            try:
                return await call()
            except StoreError:
                if self.ending.is_set():
                    raise
                await self.pause(AGAIN_SECONDS)

    async def pause(self, seconds: float) -> None:
        """Let time pass, or the trial end."""
        try:
            await asyncio.wait_for(self.ending.wait(), seconds)
        except TimeoutError:
            return

    # looking after what is there

    async def look(self) -> None:
        """Take note of runs that have ended."""
        known = list(self.open_runs)
        for first in range(0, len(known), 200):
            some = known[first : first + 200]
            try:
                ended = await self.client.store.transact(_ended, some, lane=Lane.READ)
            except StoreError:
                return
            for run in ended:
                self.open_runs.pop(run, None)

    async def answer(self) -> None:
        """Answer everything that asks for a person, as far as a careful person can."""
        try:
            inbox = await self.client.inbox(limit=200)
        except StoreError:
            return
        self.undecided.clear()
        for item in inbox.items:
            try:
                await self._answer(item)
            except StoreError:
                return  # somebody keeps the store from everybody, and may be about to be thawed here
            except (Conflict, NotFound):
                continue  # it was decided, or the run went on

    async def _answer(self, item: InboxItem) -> None:
        if item.asks == "answer":
            await self.client.answer(item.wait, value=f"ask {item.content['title']}", by=BY)
            self._history.add("answered", run=item.run, place=item.content["title"])
        elif item.asks == "settle":
            await self._settle(item)
        else:
            await self.client.answer(item.wait, again=True, by=BY)
            self._history.add("trouble", run=item.run, kind=item.content.get("trouble"), title=item.what)

    async def _settle(self, item: InboxItem) -> None:
        """Say what became of an effect: by the count outside, which decides only once nobody can still start it."""
        kind = next(kind for kind in plans.EFFECTS if item.content["effect"].startswith(kind))
        place = item.content["args"][0]
        gone = await self.client.store.transact(self._writer_gone, item.run, place)
        if await asyncio.to_thread(self._outside.counted, item.content["key"]):
            await self.client.answer(item.wait, happened=f"{kind} {place}", by=BY)
            self._history.add("settled", run=item.run, place=place, how="happened")
        elif gone:
            await self.client.answer(item.wait, again=True, by=BY)
            self._history.add("settled", run=item.run, place=place, how="again")
        else:
            self.undecided.add(item.wait)

    def _writer_gone(self, tx: Tx, run: str, place: str) -> bool:
        """Whether the worker that began an effect is gone for certain."""
        row, _ = find_run(tx, run)
        workers = {worker.id: worker for worker in tx.workers()}
        for entry in reversed(tx.journal(row.id)):
            if entry.kind is Kind.INTENT and entry.body is not None:
                intent: Any = values.decode(entry.body)
                if intent["args"] == [place]:
                    writer = workers.get(intent["worker"])
                    return writer is None or self.client.store.prove_death(writer) is Proof.PROCESS_GONE
        return False

    async def end(self) -> None:
        """Let everybody go."""
        self.ending.set()
        groups = list(self._groups)
        for group in groups:
            group.cancel()
        await asyncio.gather(*groups, return_exceptions=True)


def _head(tx: Tx, run: str) -> int:
    return max((entry.seq for entry in tx.journal_tail(find_run(tx, run)[0].id, limit=1)), default=0)


def _ended(tx: Tx, names: list[str]) -> list[str]:
    return [name for name in names if find_run(tx, name)[0].state.final]
