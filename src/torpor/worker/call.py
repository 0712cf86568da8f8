"""A step or effect that is under way, and how far an effect is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

    from torpor.sdk.port import Request
    from torpor.sdk.steps import EffectContext


class Stage(Enum):
    """How far an effect is."""

    INTENT = auto()
    GATE = auto()
    RUNNING = auto()
    RECORDING = auto()
    ASKING = auto()
    """Its `verify` is being asked what became of the last attempt."""
    LET_GO = auto()
    """Somebody interrupted it while it acted: that is on record, and its end is nobody's any more."""


@dataclass(slots=True)
class Call:
    """A step or effect that is under way."""

    request: Request
    attempt: int
    stage: Stage = Stage.RUNNING
    intent_seq: int = 0
    running: asyncio.Future[Any] | None = None
    context: EffectContext | None = None
    life: str = ""
    """The incarnation in which the attempt began."""


def buys(call: Call) -> bool:
    """Whether a call that runs costs money: thrown away, it is paid for again."""
    definition = call.request.definition
    return call.running is not None and definition is not None and definition.paid
