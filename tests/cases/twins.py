"""Two copies of a whole machine: two workers with one number, one lease and one head, each on a store of its own.

Nothing tells them apart but the life lock, which is a connection or a lock of the kernel's and cannot be copied. Each is
held at a chosen place, the test says who goes first.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from tests.patience import PATIENCE_SECONDS
from tests.rouse.clocks_by_hand import ClocksByHand
from tests.worker.counter import COUNTER
from tests.worker.labs import FaultyStore, Hold
from torpor import App, Context, EffectContext
from torpor.client import Client
from torpor.core.ids import parse_run
from torpor.engine.commit import Reply, commit
from torpor.engine.effects import look
from torpor.store.protocol import Lane
from torpor.testing import showing
from torpor.worker.executor import Executor
from torpor.worker.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.stores import Place
    from torpor.core.run import State
    from torpor.worker import roles

T = TypeVar("T")
NAMES = ("original", "copy")

app = App()
_drawn: list[str] = []


@app.effect
async def charge(ctx: EffectContext) -> str:
    """Act where nobody can look it up."""
    COUNTER.act(ctx.key)
    return ctx.key


@app.effect(safety="keyed")
async def pay(ctx: EffectContext) -> str:
    """Act where the far side knows the key."""
    COUNTER.act(ctx.key)
    return ctx.key


@app.flow
async def act(ctx: Context, safety: str) -> str:
    """Draw an id, then act."""
    _drawn.append(str(ctx.uuid()))
    return await ctx.effect(charge if safety == "once" else pay)


class _Copied(FaultyStore):
    """The copy's way to the store. With `answers` it has read the answer to the original's intent."""

    answers: asyncio.Future[list[Reply]] | None = None

    async def transact(self, op: Callable[..., T], /, *args: Any, lane: Lane = Lane.WORK, **more: Any) -> T:
        if self.answers is not None and _place(op, args) == "intent":
            return await self.answers  # type: ignore[return-value] # what `commit` returns
        return await super().transact(op, *args, lane=lane, **more)


class _Original(FaultyStore):
    """The original's way to the store: the answer to its intent is kept for the copy."""

    answers: asyncio.Future[list[Reply]] | None = None

    async def transact(self, op: Callable[..., T], /, *args: Any, lane: Lane = Lane.WORK, **more: Any) -> T:
        found = await super().transact(op, *args, lane=lane, **more)
        if self.answers is not None and _place(op, args) == "intent":
            self.answers.set_result(found)  # type: ignore[arg-type] # what `commit` returns
        return found


class _NoLock:
    """The life lock as a copy finds it."""

    name = "not ours"

    def held(self) -> bool:
        """Say that it is not held."""
        return False

    def release(self) -> None:
        """Let go of nothing."""


def _place(op: Any, args: tuple[Any, ...]) -> str:
    """Return the place in an effect's way at which a transaction stands: `intent`, `gate`, `outcome`."""
    if op is look:
        return "gate"
    kinds = {entry.kind.word for proposal in args[0] for entry in proposal.entries} if op is commit else set()
    return "intent" if "intent" in kinds else "outcome" if "outcome" in kinds else ""


class Twins:
    """An original and its copy."""

    def __init__(self, place: Place, *, copy_reads_answer: bool = False) -> None:
        """Copy before the intent is committed, or after its answer was read: then the copy has no life lock any more."""
        self._place = place
        self._after_answer = copy_reads_answer
        self._hold_at = ""
        self.ends: dict[str, str] = {}
        """How each of them ended its stretch: `left` or `lost`."""
        self.drawn: list[str] = []
        self._run = 0
        COUNTER.clear()
        _drawn.clear()

    def hold(self, place: str) -> None:
        """Hold both before their first transaction at a place."""
        self._hold_at = place

    def drive(self, safety: str, first: str) -> None:
        """Let `first` go on alone until it has ended or is lost, then the other; or `both at once`."""
        asyncio.run(self._drive(safety, first))
        self.drawn = list(_drawn)

    def recorded(self) -> list[str]:
        """Return the kinds of the entries about the effect, in order."""
        lines = self._place.open().transact_now(lambda tx: showing.lines(tx, self._run))
        return [line.kind for line in lines if line.key in {"charge#1", "pay#1"}]

    async def _drive(self, safety: str, first: str) -> None:
        original, copied = _Original(self._place.open()), _Copied(self._place.open())
        if self._after_answer:
            original.answers = copied.answers = asyncio.get_running_loop().create_future()
        stores: dict[str, FaultyStore] = {"original": original, "copy": copied}
        holds = {name: Hold() for name in NAMES}
        for name, store in stores.items():
            store.fault = self._holding(holds[name])
        workers = {"original": Worker(stores["original"], app.flows), "copy": Worker(stores["copy"], {})}
        for worker in workers.values():  # no gap and no tick: a copy that looked at its life lock would stop by itself
            worker.clocks = ClocksByHand().clocks
            setattr(worker, "_tick", asyncio.Event().wait)  # noqa: B010 - mypy has no word for a method put in another's place
        over = self._watch(workers)
        going = [asyncio.create_task(worker.run()) for worker in workers.values()]
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.gather(*(worker.ready.wait() for worker in workers.values()))
            if self._after_answer:
                workers["copy"].standing._life = _NoLock()  # noqa: SLF001 - what a copy of a machine would find
            self._run = parse_run((await Client(self._place.open()).start("act", safety)).run_id)[1]
            await asyncio.gather(*(hold.reached.wait() for hold in holds.values() if self._waits_for(hold, holds)))
            for name in NAMES if first == "both at once" else sorted(NAMES, key=lambda name: name != first):
                holds[name].released.set()
                if first != "both at once":
                    await over[name].wait()
            await asyncio.gather(*(event.wait() for event in over.values()))
            for worker in workers.values():
                worker.stop()
            await asyncio.gather(*going)

    def _waits_for(self, hold: Hold, holds: dict[str, Hold]) -> bool:
        """Whether one is held at all: a copy without a life lock never asks the store at the gate."""
        return not (self._hold_at == "gate" and hold is holds["copy"])

    def _holding(self, hold: Hold) -> Callable[[Any, tuple[Any, ...]], Hold | None]:
        def fault(op: Any, args: tuple[Any, ...]) -> Hold | None:
            wanted = _place(op, args) == self._hold_at and not hold.reached.is_set()
            return hold if wanted else None

        return fault

    def _watch(self, workers: dict[str, Worker]) -> dict[str, asyncio.Event]:
        over = {name: asyncio.Event() for name in NAMES}

        def happened(name: str) -> Callable[[str, roles.Executor, State], None]:
            def note(event: str, executor: roles.Executor, state: State) -> None:
                del state
                if event == "awake":
                    self._copy(executor, workers)
                else:
                    self.ends[name] = event
                    over[name].set()

            return note

        for name, worker in workers.items():
            worker.on_event = happened(name)
        return over

    def _copy(self, executor: roles.Executor, workers: dict[str, Worker]) -> None:
        """Give the copy what the original has just claimed: the same lease, under the same number."""
        assert isinstance(executor, Executor)
        copy = workers["copy"]
        copy.number = executor.worker.number
        copied = Executor(copy, executor._claimed, executor.flow, executor.version, {})  # noqa: SLF001 - a copy has it all
        copy.executors[copied.run.id] = copied
        copy.loop.call_soon(copied.start)
