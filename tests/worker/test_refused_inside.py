"""A transactional effect whose commit is refused did not begin: nobody waits for its end, or it is tried again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.worker.counter import COUNTER
from tests.worker.labs import FaultyStore, Hold, on, times
from torpor import App, Context
from torpor.core.run import Flag, State
from torpor.engine.commit import Reply
from torpor.engine.effects import commit_with
from torpor.store.protocol import Lane

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab

app = App()


@app.effect(safety="transactional")
def book(_connection: Any) -> str:
    """Be counted."""
    COUNTER.act("book")
    return "booked"


@app.flow
async def books(ctx: Context) -> str:
    """Book inside the commit."""
    return await ctx.effect(book)


def test_a_cancel_that_comes_just_before_its_commit_ends_the_run(store: Store, moment: Moment) -> None:
    """The refusal is the end of the effect: the run is not held for ever by a lease that is renewed (G12, G13)."""
    faulty, held = FaultyStore(store), Hold()
    faulty.fault = times(1, commit_with, held)

    async def check(lab: Lab) -> None:
        await lab.worker()
        run = await lab.start(books)
        await held.reached.wait()
        await lab.cancel(run)
        held.released.set()
        await lab.settle()
        assert await lab.state(run) == "cancelled"
        assert COUNTER.count == 0

    on(faulty, moment, app, check)


class _RefusingStore(FaultyStore):
    """A store that refuses the first transactional effect, as the engine may."""

    def __init__(self, store: Store, **refusal: bool) -> None:
        super().__init__(store)
        self._refusals = [Reply(0, Flag.NONE, State.RUNNING, **refusal)]  # type: ignore[arg-type] # `answered` or `early`

    async def transact(self, op: Callable[..., Any], /, *args: Any, lane: Lane = Lane.WORK, **more: Any) -> Any:
        """Refuse, once."""
        if op is commit_with and self._refusals:
            return args[0], self._refusals.pop()
        return await super().transact(op, *args, lane=lane, **more)


@pytest.mark.parametrize("why", ["answered", "early"])
def test_one_that_came_with_something_refused_is_sent_again(store: Store, moment: Moment, why: str) -> None:
    """A timer that is not due yet by the store's clock, or a decision that came first, refuses all of a commit (G8, G10)."""

    async def check(lab: Lab) -> None:
        run = await lab.start(books)
        assert await lab.result(run) == "booked"
        assert COUNTER.count == 1

    on(_RefusingStore(store, **{why: True}), moment, app, check)
