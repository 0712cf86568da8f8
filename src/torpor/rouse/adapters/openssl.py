"""`ssl.RAND_bytes`: OpenSSL's generator lives in the process and is copied with it.

It looks at the process number and reseeds itself in a copy that has another one. In a copied machine, or in another pid
namespace, the numbers are equal and it sees nothing; so it is fed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .waking import loaded

if TYPE_CHECKING:
    from .waking import Waking

LIBRARIES = ("ssl",)


def classes() -> tuple[type, ...]:
    """Nothing: there is one generator per process."""
    return ()


def wake(waking: Waking, _found: list[Any]) -> None:
    """Add fresh bytes; 48 are what the generator holds."""
    for add in loaded("ssl", "RAND_add"):
        add(waking.seed(48), 48.0)
