"""What an agent slept for, and how long: remembered in its state until a model is told.

The moments are those of the journal: loop time moves with the entries that a turn is given (`sdk.loop`), so a replay finds what
was found the first time, whatever clock the next worker has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from torpor.agent import reentry

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from torpor.agent.state import AgentState
    from torpor.sdk.context import Context

T = TypeVar("T")

LONG_SECONDS = 3600.0
"""A shorter sleep changes nothing that a model should know of, except between milestones."""


def moment(ctx: Context) -> int:
    """Return the journal's present moment, in microseconds."""
    return ctx.port.loop.now


def note(ctx: Context, state: AgentState, began: int, woke: str, *, least_seconds: float = 0.0) -> None:
    """Remember what was waited for since a moment, unless a longer wait is remembered or this one was too short."""
    keep(state, (moment(ctx) - began) / 1e6, woke, least_seconds=least_seconds)


def keep(state: AgentState, slept_seconds: float, woke: str, *, least_seconds: float = 0.0) -> None:
    """The same of a wait whose length is known."""
    if woke and slept_seconds >= max(least_seconds, state.slept_seconds):
        state.woke, state.slept_seconds = woke, slept_seconds


async def timed(ctx: Context, wait: Awaitable[T]) -> tuple[T, float]:
    """Wait, and return what came with the seconds that it took. Of a turn that is all that the run slept for it.

    A model that thinks and a tool that acts for hours are no sleep.
    """
    began = moment(ctx)
    came = await wait
    return came, (moment(ctx) - began) / 1e6


def tell(state: AgentState, *, least_seconds: float = 0.0) -> str:
    """Return what a model is told about the sleep that is remembered, and forget it; nothing if it was too short."""
    if state.slept_seconds < least_seconds:
        return ""
    told = reentry.waking(state.woke, state.slept_seconds)
    state.woke, state.slept_seconds = "", 0.0
    return told
