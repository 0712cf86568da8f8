"""W5: a worker is SIGKILLed after an effect acted and before that was recorded. How often did the effect act in the end?

Another worker is alive, so the same trial says how long a takeover takes: from the signal to the other worker's claim.
"""

from __future__ import annotations

import asyncio
from statistics import median
from typing import TYPE_CHECKING

from torpor.bench.conditions import conditions
from torpor.bench.parent import PATIENCE_SECONDS, Child, start_run
from torpor.bench.places import fresh
from torpor.bench.programs import app
from torpor.client import Client
from torpor.errors import NeedsPerson

if TYPE_CHECKING:
    from torpor.bench.places import Place
    from torpor.bench.rows import Row, Wanted


def effects(wanted: Wanted) -> Row:
    """Measure W5 with a `once` effect. `settled` says how each run stood when the second worker had put it away."""
    counts, settled, takeovers = [], [], []
    last: Row = {}
    for _ in range(wanted.trials):
        with fresh(wanted.store) as place:
            count, stands, takeover = _trial(place)
            last = {"peer": place.peer, **conditions(place)}
        counts.append(count)
        settled.append(stands)
        takeovers.append(takeover)
    return {
        "w": "w5",
        "peer": last.pop("peer"),
        "safety": "once",
        "effect_executions": counts,
        "settled": settled[0] if len(set(settled)) == 1 else settled,
        "takeover_ms": median(takeovers),
        "takeover_ms_each": takeovers,
        "trials": wanted.trials,
        **last,
    }


def _trial(place: Place) -> tuple[int, str, float]:
    lines = place.folder / "effect"
    run = asyncio.run(start_run(place, app, "act", str(lines)))
    with Child("hold", place) as first:
        first.heard("acted")
        with Child("go", place) as second:
            second.heard("ready")
            killed_at = first.kill()
            taken_at = second.heard("awake")["at"]
            stands = asyncio.run(_stands(place, run))
        count = len(lines.read_text("ascii").splitlines())
    return count, stands, round((taken_at - killed_at) / 1e3, 1)


async def _stands(place: Place, run: str) -> str:
    """Wait until the run has ended or asks a person, and return `completed` or `unknown`."""
    async with Client.connect(place.url) as client:
        try:
            await client.result(run, timeout_seconds=PATIENCE_SECONDS, person="raise")
        except NeedsPerson:
            return "unknown"
        return "completed"
