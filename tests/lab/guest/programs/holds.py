"""Holds what goes bad in a sleep: a lease, a token and a schedule; counts time as most programs do, or with `--rouse`.

`lease` and `token` say whether they are used as if they were good; `schedule` says after how many seconds of this clock it ran,
counted from the line; `told` what a watch found.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from talking import serve  # type: ignore[import-not-found] # beside it in the guest

from torpor import rouse
from torpor.rouse import Phase

GOOD_SECONDS = 15.0
"""Of the lease, the token, and until the schedule is due."""

with_rouse = "--rouse" in sys.argv
fetched: list[float] = []
told: list[rouse.Rousal] = []
ran = threading.Event()
look_again = threading.Event()


def fetch() -> tuple[str, float]:
    """Ask the issuer, who stands for one outside: what it gave first is expired when the machine wakes."""
    fetched.append(time.monotonic())
    return f"token {len(fetched)}", GOOD_SECONDS


def begin() -> str:
    """Take all three now."""
    now = time.monotonic()
    held.update(lease=rouse.guard("lease") if with_rouse else "lease", until=now + GOOD_SECONDS)
    held["token"] = rouse.Token(fetch, leeway_seconds=1.0) if with_rouse else fetch()[0]
    held["due_at"] = time.time() + GOOD_SECONDS
    if with_rouse:
        held["token"].get()
    threading.Thread(target=wait_for_schedule, daemon=True).start()
    return "begun"


held: dict[str, Any] = {}


def wait_for_schedule() -> None:
    """Run it when it is due. Plainly: wait as long as it takes by the clock of now. With rouse: think again after a rousal."""
    while (left := held["due_at"] - time.time()) > 0:
        if not look_again.wait(left):
            break
        look_again.clear()
    ran.set()


def lease() -> str:
    """Use the lease if it is good."""
    if time.monotonic() >= held["until"]:
        return "expired"
    if not with_rouse:
        return "used"
    try:
        rouse.pass_gate()
        return f"used {held['lease'].get()}"
    except rouse.Stale:
        return "stale"


def token() -> str:
    """Use the token."""
    return str(held["token"].get()) if with_rouse else str(held["token"])


def schedule(seconds: str) -> float | None:
    """Wait for the schedule to run."""
    began = time.monotonic()
    return time.monotonic() - began if ran.wait(float(seconds)) else None


if with_rouse:
    rouse.on_rousal(told.append, phase=Phase.CLOSE_GATE)
    rouse.on_rousal(lambda _: look_again.set(), phase=Phase.SCHEDULES)
    rouse.watch()
serve(
    {
        "begin": begin,
        "lease": lease,
        "token": token,
        "schedule": schedule,
        "clock": time.time,
        "told": lambda: [[each.kind, each.away_seconds, list(each.evidence)] for each in told],
    }
)
