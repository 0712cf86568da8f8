"""What a checkpoint of an agent holds: enough to go on, whatever the length of the conversation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torpor.sdk.rows import Rows

if TYPE_CHECKING:
    from torpor.agent.plan import Plan


@dataclass
class AgentState:
    """The state between two turns.

    `messages` are closed: a model has answered them, and nothing changes them any more, so each is written once. `tail` is
    the request that no model has answered yet: pydantic-ai may still add to it. `prompt` is what the next turn begins with
    besides, empty if it goes on from the tail. With a plan, `goal` is what the run was started with, and the conversation
    that is on began with message `since`: what was said before is not read again.
    """

    prompt: Any = None
    messages: Rows[Any] = field(default_factory=Rows)
    tail: list[Any] = field(default_factory=list)
    usage: dict[str, Any] = field(default_factory=dict)
    listens: bool = False
    """Whether the next turn begins with what somebody says: there is nothing else to go on with."""
    steps: int = 0
    """How many answers the model gave to what was asked last: `RunContext.run_step`, whoever goes on."""
    said: int = 0
    """The number of the newest closed message in which a person says something."""
    instructed: str = ""
    """A digest of the instructions that stand in the newest closed message that has any."""
    repeats: dict[str, Any] = field(default_factory=dict)
    """What the watchdog remembers."""
    began: float = 0.0
    """When the run began, in seconds since 1970, if its budget limits the time."""
    awake: float = 0.0
    """For how many seconds workers went on with it: of each turn, the last stretch."""
    granted: dict[str, int] = field(default_factory=dict)
    """What people granted beyond the budget, by name."""
    goal: Any = None
    plan: Plan | None = None
    since: int = 0
    woke: str = ""
    """What it slept for last, in words, until a model was told."""
    slept_seconds: float = 0.0
