"""A worker that was away just while a gate asked: it checks its lease and asks again (G2, G4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.rouse.clocks_by_hand import ClocksByHand
from tests.worker.counter import COUNTER
from tests.worker.labs import FaultyStore, Hold, on, once
from tests.worker.test_faults import app, one_effect, watched
from torpor.engine.effects import look

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab


def test_a_gap_while_the_gate_looks_makes_it_look_again(store: Store, moment: Moment) -> None:
    """A machine that stood still just then keeps its lease: the effect starts once, and nobody is asked (G2, G4)."""
    faulty, held = FaultyStore(store), Hold()
    faulty.fault = once(lambda op, _args: op is look, held)

    async def check(lab: Lab) -> None:
        worker: Any = await lab.worker()
        clocks = ClocksByHand()
        worker.standing._watcher = clocks.watcher(tick_seconds=1.0)  # noqa: SLF001 - clocks by hand
        run = await lab.start(one_effect)
        await held.reached.wait()
        renewed = watched(worker)
        clocks.suspend(60)
        held.released.set()
        assert await lab.result(run) == 7
        assert renewed
        assert COUNTER.count == 1
        assert [line.epoch for line in await lab.journal(run)] == [1, 1, 1]

    on(faulty, moment, app, check)
