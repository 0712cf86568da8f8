"""A program that watches: says which life it is in, what its watch told, and what a beacon of the host says."""

from __future__ import annotations

import threading

from talking import serve  # type: ignore[import-not-found] # beside it in the guest

from torpor import rouse
from torpor.rouse.beacon_http import HttpBeacon

told: list[rouse.Rousal] = []
news = threading.Condition()
places: list[rouse.Place] = []
born_in = rouse.incarnation()


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


def begin(url: str) -> str:
    """Have a place at this beacon."""
    places.append(rouse.Place(HttpBeacon(url), "guest"))
    places[0].take_over()
    return "begun"


def ask() -> list[object]:
    """Ask the beacon."""
    verdict = places[0].ask()
    return [verdict.current, verdict.kind]


def beat() -> str:
    """Tell the beacon that we live on."""
    places[0].beat()
    return "beaten"


watch = rouse.watch()
serve(
    {"life": rouse.incarnation, "born_in": lambda: born_in, "begin": begin, "told": wait_told, "ask": ask, "beat": beat}
)
