"""`torpor` on a machine whose wall clock is stepped: `python -m tests.faults.stepped worker ...`.

Torpor asks for the time in `torpor.clock` alone, `rouse` in its `Clocks`. Both are given, before anything else is loaded,
a wall clock that is off by what stands in a file: eight bytes, microseconds, written by the tormentor at any moment.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from torpor import clock

if TYPE_CHECKING:
    from collections.abc import Callable

OFFSET = "TORPOR_FAULTS_OFFSET"


def step(path: Path, micros: int) -> None:
    """Set the clock of those who read this file so far ahead of the machine's, or behind it."""
    with path.open("r+b") as file:
        file.write(struct.pack("q", micros))


def clock_of(path: Path) -> Callable[[], int]:
    """Return the stepped clock: microseconds UTC, off by what stands in a file."""
    with path.open("rb") as file:
        seen = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)

    def wall() -> int:
        return int(time.time_ns() // 1_000 + struct.unpack_from("q", seen)[0])

    return wall


def follow(path: Path) -> None:
    """Let this process live by the stepped clock."""
    wall = clock_of(path)
    clock.wall = wall
    from torpor.rouse import detectors

    detectors.Clocks.__init__.__defaults__ = (wall, *(detectors.Clocks.__init__.__defaults__ or ())[1:])


def main() -> None:
    """Be the command line, on that clock."""
    follow(Path(os.environ[OFFSET]))
    from torpor.cli.main import main as torpor

    sys.argv[0] = "torpor"
    torpor()


if __name__ == "__main__":
    main()
