"""`make faults`: a trial of so many minutes, with a line every ten seconds and a record at the end."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path

from tests.faults.torment import ALL
from tests.faults.trial import Wanted, commit, kinds_for, tried
from torpor import clock


def main() -> int:
    """Run it; 1 if something was lost or repeated."""
    parser = argparse.ArgumentParser(prog="make faults")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--count", type=int, default=0, help="so many faults in place of minutes")
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="postgres")
    parser.add_argument("--seed", type=int, default=0, help="drawn if it is not said")
    parser.add_argument("--faults", default="", help=f"some of {','.join(ALL)}; all that the store can meet")
    parser.add_argument("--record", type=Path, help="a file for the record, as JSON")
    given = parser.parse_args()
    kinds = tuple(given.faults.split(",")) if given.faults else kinds_for(given.store, hosts=True)
    if unknown := set(kinds) - set(ALL):
        parser.error(f"no such fault: {', '.join(sorted(unknown))} (there are: {', '.join(ALL)})")
    seed = given.seed or clock.wall() % 1_000_000
    minutes = 0.0 if given.count else given.minutes
    wanted = Wanted(given.store, kinds, seed, minutes=minutes, faults=given.count)
    _say(wanted.command)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that workers, disks and links are taken down
    record = tried(wanted, _say)
    _say(record.text())
    if record.wrong:
        _say(f"history and logs: {record.folder}\nagain: {record.command}")
    if given.record is not None:
        at = clock.as_datetime(clock.wall()).isoformat(timespec="seconds")
        kept = {"at": at, "commit": commit(), "seconds": record.seconds, "wrong": record.wrong, **record.counts}
        given.record.write_text(json.dumps({"command": record.command, **kept}, indent=2) + "\n")
    return 1 if record.wrong else 0


def _say(line: str) -> None:
    at = clock.as_datetime(clock.wall()).strftime("%H:%M:%S")
    sys.stdout.write(f"{at} {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
