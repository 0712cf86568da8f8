"""W4: one run, one step after another. How long from the beginning of a step to the beginning of the next?"""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING

from torpor.bench.conditions import conditions
from torpor.bench.parent import make_known
from torpor.bench.places import fresh
from torpor.bench.programs import STAMPS, app
from torpor.bench.rows import Row, Wanted, median_row, spread_ms
from torpor.bench.throughput import drive
from torpor.client import Client
from torpor.errors import UsageError
from torpor.runtime import opened

if TYPE_CHECKING:
    from torpor.bench.places import Place


def latency(wanted: Wanted) -> Row:
    """Measure W4. Raises UsageError for fewer than two steps."""
    if wanted.steps < 2:  # noqa: PLR2004 - said in the message
        raise UsageError("the time from a step to the next needs two steps", hint="--steps 500")
    return median_row(lambda: _trial(wanted), wanted.trials, by="p50_ms")


def _trial(wanted: Wanted) -> Row:
    with fresh(wanted.store) as place:
        spread = spread_ms(asyncio.run(_measured(place, wanted.steps)))
        return {"w": "w4", "peer": place.peer, "steps": wanted.steps, **spread, **conditions(place)}


async def _measured(place: Place, steps: int) -> list[float]:
    STAMPS.clear()
    async with opened(place.url) as store:
        await make_known(store, app)
        await Client(store).start("stamped", steps)
        await drive(store, 1)
    return [later - earlier for earlier, later in pairwise(STAMPS)]
