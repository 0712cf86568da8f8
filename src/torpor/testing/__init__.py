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
"""

from __future__ import annotations

from torpor.testing.clock import Clock
from torpor.testing.crashes import Crash
from torpor.testing.lab import Lab
from torpor.testing.mortal import Place
from torpor.testing.run import Run
from torpor.testing.showing import Effect, Line, Wait

__all__ = ["Clock", "Crash", "Effect", "Lab", "Line", "Place", "Run", "Wait"]
