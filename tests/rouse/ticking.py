"""A script: ticks until its standard input closes and reports each rousal as a line of JSON."""

from __future__ import annotations

import json
import select
import sys

from torpor import rouse

TICK_SECONDS = 0.02
FREEZE_SECONDS = 0.2


def say(**line: object) -> None:
    """One line, at once."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Tick."""
    watcher = rouse.Watcher(rouse.Limits(tick_seconds=TICK_SECONDS, freeze_seconds=FREEZE_SECONDS))

    @watcher.on_rousal
    def report(rousal: rouse.Rousal) -> None:
        say(
            kind=rousal.kind,
            away_seconds=rousal.away_seconds,
            evidence=rousal.evidence,
            before=rousal.before,
            after=rousal.after,
            now=rouse.incarnation(),
        )

    say(ready=rouse.incarnation())
    while not select.select([sys.stdin], [], [], TICK_SECONDS)[0]:
        watcher.check()


if __name__ == "__main__":
    main()
