"""What a run's story consists of: its lines, its effects, the messages that it took."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torpor.engine.queries.life import Stretch


@dataclass(slots=True)
class StoryLine:
    """One line of a run's story. `seq` is the entry it begins at; `quiet` ones are told only when asked for.

    `ended_at` is when the outcome was recorded, None while it is open.
    """

    seq: int
    at: int
    what: str
    outcome: str
    ended_at: int | None = None
    quiet: bool = False


@dataclass(slots=True)
class EffectLine:
    """One logical call of an effect. `outcome` is done, failed, unknown or in flight; `key` its idempotency key (G5)."""

    effect: str
    turn: int
    safety: str
    outcome: str
    key: str
    args: str
    started_at: int
    ended_at: int | None
    attempts: int
    settled_by: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Heard:
    """A message that code of the run took, and when."""

    at: int
    name: str
    value: Any


@dataclass(slots=True)
class Story:
    """What the newest entries tell."""

    lines: list[StoryLine] = field(default_factory=list)
    effects: list[EffectLine] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)
    """Oldest first."""
    life: list[Stretch] = field(default_factory=list)
