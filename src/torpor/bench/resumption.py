"""W3: a worker with so many steps behind it is SIGKILLed in the next one. How soon does a new process do that step?

Twice: with a flow that returns `again` every hundred steps, which is how torpor bounds replay, and with all steps in one
turn. The frontier lies at the end of a turn, so that as much as possible must be replayed.
"""

from __future__ import annotations

import asyncio

from torpor.bench.conditions import conditions
from torpor.bench.parent import Child, start_run
from torpor.bench.places import fresh
from torpor.bench.programs import History, app
from torpor.bench.rows import Row, Wanted, median_row
from torpor.clock import SECOND

EVERY = 100
"""Steps in a turn."""
MOST_IN_ONE_TURN = 10_000
"""With more, only the flow that returns `again` is measured: the other one replays all of them."""


def resumption(wanted: Wanted) -> Row:
    """Measure W3, `mode` saying how the flow is written; the other way of writing it is in `one_turn`."""
    turns = median_row(lambda: _trial(wanted, EVERY), wanted.trials, by="launch_to_step_s")
    row = {**turns, "mode": f"again every {EVERY} steps"}
    if wanted.history > MOST_IN_ONE_TURN:
        return row
    whole = median_row(lambda: _trial(wanted, wanted.history), wanted.trials, by="launch_to_step_s")
    fields = ("spawn_to_step_s", "launch_to_step_s", "takeover_s", "store_mb", "launch_to_step_s_each", "load1")
    return {**row, "one_turn": {name: whole[name] for name in fields}}


def _trial(wanted: Wanted, every: int) -> Row:
    with fresh(wanted.store) as place:
        asyncio.run(start_run(place, app, "history", History(wanted.history, every)))
        with Child("hold", place) as first:
            first.heard("frontier")
            first.kill()
        stored = place.size_bytes()
        with Child("go", place) as second:
            loaded = second.heard("loaded")["at"]
            awake = second.heard("awake")["at"]
            reached = second.heard("frontier")["at"]
        return {
            "w": "w3",
            "peer": place.peer,
            "mode": "",
            "history": wanted.history,
            "spawn_to_step_s": round((reached - second.started_at) / SECOND, 4),
            "launch_to_step_s": round((reached - loaded) / SECOND, 4),
            "takeover_s": round((awake - loaded) / SECOND, 4),
            "store_mb": round(stored / 1e6, 2),
            **conditions(place),
        }
