"""What a guest is given before it is durable: one commit less, and nothing that a crash could tell."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests.worker.labs import FaultyStore, Hold, on
from torpor import App, Context
from torpor.core.effect import Safety
from torpor.core.retry import RetryPolicy
from torpor.engine.commit import commit
from torpor.sdk.guest import Guest
from torpor.sdk.steps import Definition
from torpor.testing.mortal import described

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.sdk.steps import EffectContext
    from torpor.store.protocol import Store
    from torpor.testing import Lab


@dataclass
class Seen:
    """What happened, in order."""

    acted: Counter[str] = field(default_factory=Counter)
    commits: list[str] = field(default_factory=list)
    given: list[tuple[Any, int]] = field(default_factory=list)
    """What the guest got, and how many commits had been sent then."""
    sent: asyncio.Event = field(default_factory=asyncio.Event)

    def fault(self, op: Any, args: tuple[Any, ...]) -> None:
        """Remember commits, and make no fault."""
        if op is commit:
            self.commits.append(described(args[0]))
            self.sent.set()


SEEN = Seen()
MADE: list[int] = []
app = App()


def act(name: str, safety: Safety = Safety.REPEATABLE) -> Definition:
    """Return a definition that gives back a list, the same object each time."""

    async def acting(_: EffectContext) -> list[int]:
        SEEN.acted[name] += 1
        return MADE

    return Definition(name, acting, safety, RetryPolicy(), None, None, is_async=True, takes_context=True)


async def ask(guest: Guest, name: str, safety: Safety = Safety.REPEATABLE) -> Any:
    """Ask for it, as early as may be."""
    made = act(name, safety)
    value = await guest.call(lambda inside: inside.perform(made, {"args": []}, "0", ahead=True))
    SEEN.given.append((value, len(SEEN.commits)))
    return value


@app.flow
async def ends(ctx: Context, turn: int) -> Any:
    """Let a guest ask once in each of two turns."""
    guest = Guest(ctx)
    value = await guest.run(ask(guest, f"one {turn}"))
    return ctx.again(turn + 1) if turn == 1 else value


@app.flow
async def goes_on(ctx: Context) -> Any:
    """Let a guest ask for something else."""
    guest = Guest(ctx)

    async def outside() -> Any:
        await ask(guest, "one")
        return await ask(guest, "two")

    return await guest.run(outside())


@app.flow
async def lingers(ctx: Context) -> Any:
    """Let a guest end only once something was committed."""
    guest = Guest(ctx)

    async def outside() -> Any:
        value = await ask(guest, "one")
        await SEEN.sent.wait()
        return value

    return await guest.run(outside())


@app.flow
async def effect(ctx: Context) -> Any:
    """Let a guest ask for an effect."""
    guest = Guest(ctx)
    return await guest.run(ask(guest, "one", Safety.ONCE))


@app.flow
async def several(ctx: Context) -> Any:
    """Let a guest ask for two at once."""
    guest = Guest(ctx)

    async def outside() -> Any:
        return await asyncio.gather(ask(guest, "one"), ask(guest, "two"))

    return await guest.run(outside())


def begin(store: FaultyStore) -> None:
    """Forget what was seen."""
    MADE[:] = [1, 2]
    SEEN.__init__()  # type: ignore[misc]
    store.fault = SEEN.fault


def test_the_outcome_and_the_end_travel_together(store: Store, moment: Moment) -> None:
    """The guest goes on before; what it gets is what will be read, not the object that the step returned (G14)."""
    faulty = FaultyStore(store)

    async def check(lab: Lab) -> None:
        begin(faulty)
        assert await lab.result(await lab.start(ends, 1)) == [1, 2]
        first, second = SEEN.commits
        assert "one 1" in first
        assert "checkpoint" in first
        assert "one 2" in second
        assert [sent for _, sent in SEEN.given] == [0, 1]
        assert all(value == MADE and value is not MADE for value, _ in SEEN.given)

    on(faulty, moment, app, check)


def test_nothing_begins_before_it_is_durable(store: Store, moment: Moment) -> None:
    """What the guest asks for meanwhile waits for the commit, which is sent at once then."""
    faulty, held = FaultyStore(store), Hold()

    async def check(lab: Lab) -> None:
        begin(faulty)
        faulty.fault = lambda op, args: held if op is commit and not held.released.is_set() else SEEN.fault(op, args)
        run = await lab.start(goes_on)
        worker = await lab.worker()
        await held.reached.wait()
        [executor] = worker.executors.values()
        executor.go_on()  # whoever looks meanwhile begins nothing either
        assert SEEN.acted == {"one": 1}
        held.released.set()
        assert await lab.result(run) == [1, 2]
        assert SEEN.acted == {"one": 1, "two": 1}

    on(faulty, moment, app, check)


def test_a_guest_that_does_something_else_is_not_waited_for(store: Store, moment: Moment) -> None:
    """Its outcome is committed soon, whatever the guest does."""
    faulty = FaultyStore(store)

    async def check(lab: Lab) -> None:
        begin(faulty)
        assert await lab.result(await lab.start(lingers)) == [1, 2]
        assert len(SEEN.commits) == 2
        assert SEEN.given == [([1, 2], 0)]

    on(faulty, moment, app, check)


@pytest.mark.parametrize(("flow", "before"), [(effect, [2]), (several, [1, 1])])
def test_what_else_is_durable_first(store: Store, moment: Moment, flow: Any, before: list[int]) -> None:
    """An effect's outcome never comes early, nor those of two that end together."""
    faulty = FaultyStore(store)

    async def check(lab: Lab) -> None:
        begin(faulty)
        await lab.result(await lab.start(flow))
        assert [sent for _, sent in SEEN.given] == before

    on(faulty, moment, app, check)


@pytest.mark.slow
@pytest.mark.parametrize("flow", [goes_on, several])
def test_a_worker_may_die_anywhere(store: Store, moment: Moment, flow: Any) -> None:
    """What was given early is done again if it was not durable: at most once for the death, and the result is the same."""
    faulty = FaultyStore(store)

    async def check(lab: Lab) -> None:
        expected = [1, 2] if flow is goes_on else [[1, 2], [1, 2]]
        async for crash in lab.every_crash(flow, before=lambda: begin(faulty)):
            assert await crash.result() == expected, crash
            assert sum(SEEN.acted.values()) <= 4, crash

    on(faulty, moment, app, check)
