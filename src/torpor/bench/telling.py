"""What a process that was started by a measurement says: one JSON object a line on its standard output."""

from __future__ import annotations

import sys
from json import dumps
from typing import Any

from torpor import clock


def say(event: str, **facts: Any) -> None:
    """Say that something happened, with the moment: microseconds of the host's clock, which the parent shares."""
    at = clock.wall()
    sys.stdout.write(dumps({"event": event, "at": at, **facts}) + "\n")
    sys.stdout.flush()
