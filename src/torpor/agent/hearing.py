"""What people say to an agent while it lives: the signal they say it with, and an agent that listens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torpor.agent.prompts import heard, joined
from torpor.errors import Interrupted

if TYPE_CHECKING:
    from torpor.sdk.context import Context

MESSAGE = "message"
"""The signal by which people speak to an agent."""


async def listen(ctx: Context) -> Any:
    """Wait for what somebody says next.

    An interrupt ends what an agent does, so that it listens: one that listens already has nothing to end. Whoever
    interrupts twice, or a run that only waits for them, wants to be heard, and not the run's end.
    """
    while True:
        try:
            return heard(await ctx.receive(MESSAGE))
        except Interrupted:
            continue


async def told(ctx: Context, prompt: Any) -> Any:
    """Return a prompt with everything that people have said by now. Raises Interrupted."""
    while ctx.heard(MESSAGE):
        prompt = joined(prompt, heard(await ctx.receive(MESSAGE)))
    return prompt
