"""A step that runs until the test says so: whatever comes meanwhile comes before the flow waits for it."""

from __future__ import annotations

import asyncio

from torpor import App

TIMEOUT_SECONDS = 600
app = App()
_going: dict[str, asyncio.Event] = {}


@app.step
async def prepare() -> None:
    """Run until the test says so."""
    _going["entered"].set()
    await _going["leave"].wait()


def gate() -> tuple[asyncio.Event, asyncio.Event]:
    """Return what is set once the step runs, and what lets it end. To be called before the run is started."""
    _going.update(entered=asyncio.Event(), leave=asyncio.Event())
    return _going["entered"], _going["leave"]
