"""`random` of the standard library: its hidden generator, and the names that `tempfile` draws.

A `random.Random` of your own may have been seeded on purpose: it is reseeded if put under care, `rouse.adapt(generator)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .waking import loaded

if TYPE_CHECKING:
    from .waking import Waking

LIBRARIES = ("random",)


def classes() -> tuple[type, ...]:
    """What may be put under care."""
    return loaded("random", "Random")


def wake(waking: Waking, found: list[Any]) -> None:
    """Seed each from fresh bytes."""
    for seed in loaded("random", "seed"):
        seed(waking.seed())
    for names in loaded("tempfile", "_get_candidate_names"):
        names().rng.seed(waking.seed())
    for each in found:
        each.seed(waking.seed())
