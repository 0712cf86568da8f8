"""W6: many runs fall due in the same moment. How long does somebody else's claim take while they are woken and worked off?

One process wakes and drives the herd. This one plays a worker that serves another program only, of another tenant: it starts
a run of it and claims it, again and again, and times the claims (G20).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from torpor import clock
from torpor.bench.claiming import claimant
from torpor.bench.conditions import conditions
from torpor.bench.parent import PATIENCE_SECONDS, Child, make_known
from torpor.bench.places import fresh
from torpor.bench.programs import app
from torpor.bench.rows import Row, Wanted, median_row, spread_ms
from torpor.core.run import State
from torpor.engine import runs
from torpor.errors import TorporError
from torpor.runtime import opened
from torpor.store.protocol import Lane

if TYPE_CHECKING:
    from torpor.bench.claiming import Claimant
    from torpor.bench.places import Place
    from torpor.store.protocol import Store, Tx

_AT_ONCE = 1000
_ALONE = 200
"""So many claims are timed before anything wakes: what the machine's other work costs them."""
_LOOK_SECONDS = 0.25


def waking(wanted: Wanted) -> Row:
    """Measure W6."""
    return median_row(lambda: _trial(wanted), wanted.trials, by="p99_ms")


def _trial(wanted: Wanted) -> Row:
    with fresh(wanted.store) as place:
        row = asyncio.run(_measured(place, wanted.runs))
        return {"w": "w6", "peer": place.peer, "runs": wanted.runs, **row, **conditions(place)}


async def _measured(place: Place, herd: int) -> Row:
    async with opened(place.url) as store:
        await make_known(store, app)
        for first in range(0, herd, _AT_ONCE):
            await store.transact(_sleep, min(_AT_ONCE, herd - first))
        async with claimant(store) as other:
            alone = spread_ms([await other.claim() for _ in range(_ALONE)])
            with Child("go", place) as child:
                await asyncio.to_thread(child.heard, "ready")
                row = await _beside(store, other)
    return {
        **row,
        "alone_p50_ms": alone["p50_ms"],
        "alone_p99_ms": alone["p99_ms"],
        "runs_s": round(herd / row["secs"], 1),
    }


def _sleep(tx: Tx, count: int) -> None:
    """Put runs to sleep until a moment that has come: the first waker finds them all due."""
    runs.start(tx, [runs.Start("loop", b"0", due_at=tx.now()) for _ in range(count)])


async def _beside(store: Store, other: Claimant) -> Row:
    """Claim beside the herd until all of it has ended. Raises TorporError if it does not."""
    took: list[float] = []
    began = looked = clock.monotonic()
    woken = 0.0
    while True:
        took.append(await other.claim())
        if clock.monotonic() - looked >= _LOOK_SECONDS:
            looked = clock.monotonic()
            asleep, others = await store.transact(_left, lane=Lane.READ)
            woken = woken or (looked - began if not asleep else 0.0)
            if not asleep and others <= len(took) + _ALONE:
                return {"wake_secs": round(woken, 3), "secs": round(looked - began, 3), **spread_ms(took)}
            if looked - began > PATIENCE_SECONDS:
                raise TorporError(f"{others - len(took) - _ALONE} runs of the herd did not end")


def _left(tx: Tx) -> tuple[int, int]:
    """Return whether any still sleep, and how many are ready or running: our own are running."""
    counts = tx.count_runs([State.WAITING, State.READY, State.RUNNING], most=1_000_000)
    return min(counts[State.WAITING], 1), counts[State.READY] + counts[State.RUNNING]
