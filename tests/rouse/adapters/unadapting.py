"""Taking back `rouse.adapt()`, which nobody but a test wants."""

from __future__ import annotations

import sys


def unadapt() -> None:
    """As if `adapt()` had not been called in this process."""
    adapters = sys.modules.get("torpor.rouse.adapters")
    if adapters is not None:
        for each in adapters._registrations:  # noqa: SLF001 - it has no public way back
            each.take_back()
        adapters._registrations.clear()  # noqa: SLF001 - the same
