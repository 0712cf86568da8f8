"""numpy's hidden generator, `numpy.random.random()` and its kin.

A `Generator` may have been seeded on purpose: it is reseeded if put under care, `rouse.adapt(numpy.random.default_rng())`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .waking import loaded

if TYPE_CHECKING:
    from .waking import Waking

LIBRARIES = ("numpy",)


def classes() -> tuple[type, ...]:
    """What may be put under care."""
    return loaded("numpy.random", "Generator", "RandomState", "BitGenerator")


def wake(waking: Waking, found: list[Any]) -> None:
    """Seed each from fresh bytes."""
    for seed in loaded("numpy.random", "seed"):
        seed([int.from_bytes(waking.seed(4), "big") for _ in range(8)])
    for each in found:
        bits = getattr(each, "bit_generator", None) or getattr(each, "_bit_generator", each)
        bits.state = type(bits)(int.from_bytes(waking.seed(), "big")).state
