"""Testing your flows: in this process, on a clock you move, with a worker that can be killed at any step.

    from torpor import testing

    async with testing.Lab(app) as lab:
        run = await lab.start(refund, "A-1")
        await lab.settle()
        await lab.approve("Refund A-1?")
        assert await lab.result(run) == "refunded"

        async for crash in lab.every_crash(refund, "A-2", drive=approve_it):
            assert await crash.result() == "refunded", crash

No plugin is needed: `asyncio.run` in a plain test function will do. docs/testing.md has the whole story.

`Script` and `Cassette` stand in for the model of an agent (docs/rehearsal.md). They need pydantic-ai (`torpor[agent]`) and
are loaded when they are first used, so that whoever tests plain flows pays for no model library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from torpor.testing.clock import Clock
from torpor.testing.crashes import Crash
from torpor.testing.lab import Lab
from torpor.testing.mortal import Place
from torpor.testing.run import Run
from torpor.testing.showing import Effect, Line, Wait

if TYPE_CHECKING:
    from torpor.testing.cassette import Cassette as Cassette
    from torpor.testing.script import Script as Script
    from torpor.testing.script import call as call

_PLACES = {"Cassette": "torpor.testing.cassette", **dict.fromkeys(("Script", "call"), "torpor.testing.script")}

__all__ = ["Cassette", "Clock", "Crash", "Effect", "Lab", "Line", "Place", "Run", "Script", "Wait", "call"]


def __getattr__(name: str) -> object:
    """Load what needs a model library when it is first used."""
    if name in _PLACES:
        value = getattr(import_module(_PLACES[name]), name)
        globals()[name] = value
        return value
    message = f"module 'torpor.testing' has no attribute {name!r}"
    raise AttributeError(message)
