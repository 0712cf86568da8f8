"""What a run emits while one of its commits takes its time is written once, and costs the run nothing (G11, G13)."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.worker.labs import FaultyStore, Hold, asleep, commits_of, no_fault, on, once
from tests.worker.speaking import check_numbers, parts
from tests.worker.test_roused_calls import callback, round_of_the_loop
from torpor import App, Context, rouse
from torpor.engine import effects, streams
from torpor.worker.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.stores import Moment
    from torpor.sdk.steps import EffectContext
    from torpor.store.protocol import Store
    from torpor.testing import Lab

app = App()
SAID = ["one ", "two ", "three ", "four "]
WORDS: list[asyncio.Queue[str]] = []
GATES: list[asyncio.Event] = []


async def speak(it: EffectContext) -> str:
    """Emit what the test says, word by word, until it says nothing."""
    said = ""
    while word := await WORDS[-1].get():
        it.emit(word)
        said += word
    return said


@app.step
async def talks(it: EffectContext) -> str:
    """Speak; it may be done again."""
    return await speak(it)


@app.effect
async def announces(it: EffectContext) -> str:
    """Speak, once."""
    return await speak(it)


@app.step
async def ends() -> int:
    """End when the test says so."""
    await GATES[-1].wait()
    return 1


@app.effect(safety="transactional")
def books(_connection: Any) -> int:
    """Write nothing, inside the commit."""
    return 1


@app.step
async def waits() -> int:
    """Come before what is done inside the commit."""
    await GATES[-1].wait()
    return 1


@app.flow
async def both(ctx: Context, names: list[str]) -> list[Any]:
    """Speak beside something that ends."""
    speaks = ctx.effect(announces) if names[0] == "announces" else ctx.step(talks)
    return list(await asyncio.gather(speaks, inside(ctx) if names[1] == "books" else ctx.step(ends)))


async def inside(ctx: Context) -> int:
    """Do something inside a commit, when the test says so."""
    return await ctx.step(waits) and await ctx.effect(books)


@pytest.fixture(autouse=True)
def _afresh() -> Iterator[None]:
    """Nobody has spoken; and the process's registry is sound afterwards."""
    yield
    rouse.mend()


class Beside:
    """A lab in which a run speaks while its commit is held back: how often its stream was asked for, and what was sent."""

    def __init__(self, worker: Any, faulty: FaultyStore, patch: pytest.MonkeyPatch) -> None:
        """Look at one worker from now on."""
        self.worker, self.faulty = worker, faulty
        self.asked: asyncio.Queue[None] = asyncio.Queue()
        self.left: asyncio.Queue[str] = asyncio.Queue()
        self.sent: list[bytes] = []
        WORDS[:], GATES[:] = [asyncio.Queue()], [asyncio.Event()]
        hold = Stream.hold

        def held(stream: Stream, quiet: Callable[[], None]) -> None:
            hold(stream, quiet)
            self.asked.put_nowait(None)

        patch.setattr(Stream, "hold", held)
        self._stirs, worker.on_event = worker.on_event, self._on_event

    def _on_event(self, what: str, executor: Any, state: Any) -> None:
        if what != "awake":
            self.left.put_nowait(what)
        self._stirs(what, executor, state)

    def watched(self, fault: Callable[[Any, tuple[Any, ...]], Any]) -> Callable[[Any, tuple[Any, ...]], Any]:
        """Return a fault that also takes note of what is sent to streams between two commits."""

        def ask(op: Any, args: tuple[Any, ...]) -> Any:
            if op is streams.append:
                self.sent += [part.body for said in args[0] if said.write is not None for part in said.write.parts]
            return fault(op, args)

        return ask

    async def say(self, words: list[str]) -> None:
        """Let it emit, each word when its stream was asked for what came before."""
        for word in words:
            WORDS[-1].put_nowait(word)
            await asyncio.wait_for(self.asked.get(), PATIENCE_SECONDS)


async def delayed(beside: Beside, how: str, over: ExitStack) -> Callable[[], None]:
    """Let a commit of the run begin and not end; return what lets it go on."""
    if how == "phases":
        leave = threading.Event()
        over.callback(leave.set)
        over.enter_context(callback(lambda _rousal: leave.wait(PATIENCE_SECONDS)))
        asleep(beside.worker)
        assert not beside.worker.standing.look()
        GATES[-1].set()
        (executor,) = beside.worker.executors.values()
        while not executor.commits.in_flight:
            await round_of_the_loop()
        return leave.set
    hold = Hold()
    fits = (lambda op, _: op is effects.commit_with) if how == "inside" else commits_of("outcome ends#1")
    beside.faulty.fault = beside.watched(once(fits, hold))
    GATES[-1].set()
    await asyncio.wait_for(hold.reached.wait(), PATIENCE_SECONDS)
    return hold.released.set


@pytest.mark.parametrize("name", ["talks", "announces"])
@pytest.mark.parametrize("how", ["slow", "phases", "inside"])
def test_its_run_goes_on(store: Store, moment: Moment, monkeypatch: pytest.MonkeyPatch, how: str, name: str) -> None:
    """However often its stream was asked for meanwhile: each part is sent once, and the lease is kept.

    The commit waits for a slow store, for the phases of a rousal, or for an effect that acts inside it.
    """
    faulty = FaultyStore(store)

    async def check(lab: Lab) -> None:
        beside = Beside(await lab.worker(), faulty, monkeypatch)
        faulty.fault = beside.watched(no_fault)
        run = await lab.start(both, [name, "books" if how == "inside" else "ends"])
        await beside.say(SAID[:1])
        with ExitStack() as over:
            go_on = await delayed(beside, how, over)
            await beside.say(SAID[1:])
            go_on()
            WORDS[-1].put_nowait("")
            assert await asyncio.wait_for(beside.left.get(), PATIENCE_SECONDS) == "left"
        assert await lab.result(run) == ["".join(SAID), 1]
        assert {line.epoch for line in await lab.journal(run)} == {1}
        faulty.fault = no_fault
        assert "".join(str(part.body) for part in await parts(lab, run)) == "".join(SAID)
        assert len(beside.sent) == len(set(beside.sent)), "the same parts are sent once"
        await check_numbers(lab, run)

    on(cast("Store", faulty), moment, app, check)
