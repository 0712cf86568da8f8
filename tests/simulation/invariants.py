"""What must be true of every history; a function each, with the number of its guarantee in its name."""
from __future__ import annotations
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from collections.abc import Callable
    from tests.simulation.world import World
ALL: tuple[Callable[[World], list[str]], ...] = ()
