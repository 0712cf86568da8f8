"""A program that watches: says which life it is in, what its watch told, and what a beacon of the host says.

`lives.py [BEACON_URL]`.
"""

from __future__ import annotations

import sys
import threading

from talking import serve  # type: ignore[import-not-found] # beside it in the guest

from torpor import rouse
from torpor.rouse.beacon_http import HttpBeacon

told: list[rouse.Rousal] = []
news = threading.Condition()
place = rouse.Place(HttpBeacon(sys.argv[1]), "guest") if len(sys.argv) > 1 else None


@rouse.on_rousal
def note(rousal: rouse.Rousal) -> None:
    """Keep it."""
    with news:
        told.append(rousal)
        news.notify_all()


def wait_told(number: str, seconds: str) -> list[list[object]]:
    """Wait for so many rousals, and return those there are."""
    with news:
        news.wait_for(lambda: len(told) >= int(number), float(seconds))
        return [[each.kind, each.away_seconds, list(each.evidence)] for each in told]


def ask() -> list[object]:
    """Ask the beacon."""
    verdict = place.ask() if place is not None else None
    return [verdict.current, verdict.kind] if verdict is not None else []


def beat() -> str:
    """Tell the beacon that we live on."""
    if place is not None:
        place.beat()
    return "beaten"


if place is not None:
    place.take_over()
watch = rouse.watch()
serve({"life": rouse.incarnation, "told": wait_told, "ask": ask, "beat": beat})
