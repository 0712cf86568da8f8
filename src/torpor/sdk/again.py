"""How a turn of a flow ends that is not the last one."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Again(Generic[T]):
    """What a flow returns to end its turn: torpor checkpoints `state` and calls the flow again with it."""

    __slots__ = ("state",)

    def __init__(self, state: T) -> None:
        """Carry the state of the next turn."""
        self.state = state
