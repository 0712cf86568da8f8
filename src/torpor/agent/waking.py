"""What an agent slept for, and how long: remembered in its state until a model is told.

The moments are those of the journal: loop time moves with the entries that a turn is given (`sdk.loop`), so a replay finds what
was found the first time, whatever clock the next worker has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.agent import reentry

if TYPE_CHECKING:
    from torpor.agent.state import AgentState
    from torpor.sdk.context import Context

LONG_SECONDS = 3600.0
"""A shorter sleep changes nothing that a model should know of, except between milestones."""


def moment(ctx: Context) -> int:
    """Return the journal's present moment, in microseconds."""
    return ctx.port.loop.now


def note(ctx: Context, state: AgentState, began: int, woke: str, *, least_seconds: float = 0.0) -> None:
    """Remember what was waited for since a moment, unless a longer wait is remembered or this one was too short."""
    slept = (moment(ctx) - began) / 1e6
    if woke and slept >= max(least_seconds, state.slept_seconds):
        state.woke, state.slept_seconds = woke, slept


def tell(state: AgentState, *, least_seconds: float = 0.0) -> str:
    """Return what a model is told about the sleep that is remembered, and forget it; nothing if it was too short."""
    if state.slept_seconds < least_seconds:
        return ""
    told = reentry.waking(state.woke, state.slept_seconds)
    state.woke, state.slept_seconds = "", 0.0
    return told
