"""C06 in a real machine: torpor and its SQLite file live in one that is saved, away for two hours, and woken.

A 10-minute timer, an hourly schedule and a call to somebody who never answers. The machine's clocks stood still; its host
sets the wall clock before anything goes on. Right: the timer fires once, the missed slots get one run, the call ends.
"""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.lab.doors import serving
from tests.lab.guests import HOST, python, silent
from tests.lab.lab import PYTHON

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lab.lab import Lab

pytestmark = [pytest.mark.slow, pytest.mark.alone]

AWAY_SECONDS = 2 * 3600.0 + 60.0
STORE = "sqlite:////torpor.db"
STARTS = f"""
import asyncio
from torpor.client import Client
from torpor.store.opening import open_store

async def start():
    client = Client(open_store({STORE!r}))
    for program in ("naps", "reads"):
        await client.start(program)

asyncio.run(start())
"""


def at_half_past() -> float:
    """Return a moment that is far from every slot of the schedule."""
    now = time.time()
    return now - now % 3600.0 + 1800.0


def test_a_machine_that_slept_goes_on_where_the_world_is(lab: Lab, figure: Callable[[str, object], None]) -> None:
    """Everything that fell due is done once, and nothing waits for the clock of before."""
    with serving() as doors, silent() as dead:
        machine = lab.start()
        machine.set_clock(at_half_past())
        program = python(machine, "works")
        env = {"LAB_DOORS": doors.url, "LAB_SILENT": f"http://{HOST}:{dead.port}"}
        argv = ["worker", "/source/programs/laptop.py", "--store", STORE]
        program.write(json.dumps({"argv": argv, "env": env}))
        program.error("works on")
        machine.run("/usr/bin/python3", "-c", STARTS, env=PYTHON)
        doors.acted("sleeps")
        dead.came("/never")
        slept_at = machine.clocks()["realtime"]
        snapshot = machine.snapshot(freeze=True)
        woke_at = time.monotonic()
        with lab.wake(snapshot, machine.hardware, wall_seconds=slept_at + AWAY_SECONDS) as woken:
            for what in ("rang", "hourly", "ended"):
                doors.acted(what)
                figure(f"{what} after the wake, seconds", time.monotonic() - woke_at)
            its = woken.the(program)
            its.kill(signal.SIGTERM)
            with pytest.raises(EOFError, match="it ended with 0"):
                its.line()
    assert sorted(act.key for act in doors.acts) == ["ended", "hourly", "rang", "sleeps"]
