"""What a lab's killed workers left stays silent to the end of the process: an author sees no noise after a green test."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import asyncio
import torpor
from torpor.testing import Lab, mortal

app = torpor.App()


@app.step
async def work():
    try:
        await asyncio.sleep(0)
        return 1
    finally:
        print("tidied up")


@app.flow
async def spends(ctx):
    held = await ctx.budget.reserve("0.20")
    await ctx.step(work)
    await held.settle("0.10")
    return "done"


async def main():
    async with Lab(app) as lab:
        ends = [await crash.result() async for crash in lab.every_crash(spends, places=mortal.KILLS)]
        print(len(ends) > 8, set(ends))
        reached = asyncio.Event()

        @app.step
        async def waits():
            try:
                reached.set()
                await asyncio.Event().wait()
            except BaseException as error:
                print("cleaned up", type(error))
                raise

        @app.flow
        async def stuck(ctx):
            await ctx.step(waits)

    async with Lab(app) as lab:
        await lab.start(stuck)
        await lab.worker()
        await reached.wait()
        await lab.kill()


asyncio.run(main())
"""


def test_the_dead_are_silent_at_the_end_of_the_process() -> None:
    """No `except`, no `finally` of theirs runs while the interpreter goes down, and nothing is said about them."""
    ended = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False, timeout=120)
    lines = ended.stdout.splitlines()
    assert (ended.returncode, ended.stderr) == (0, "")
    assert lines[-1] == "True {'done'}"
    assert set(lines[:-1]) == {"tidied up"}  # those that lived
