"""What happened in a trial, line by line: written while it happens, judged afterwards by `checks`.

A line is a JSON object with `what` it is and `at`, the machine's wall clock in microseconds (of the machine that counts:
nobody steps this one). Who knew it first writes it, before anybody acts on it:

    planned    key, acts, messages        what a run is going to do, before it is started
    started    key, run                   the store acknowledged the start
    sent       run, sender, n             the store acknowledged a message
    cancelled  run, head                  the store acknowledged a cancel; the run's last entry, read after that
    call       kind, place, key, run      the service outside counted an act, before it answered
    settled    run, place, how            a person said what became of an unknown effect
    answered   run, place                 a person answered a question
    trouble    run, kind, title           a run asked a person what to do, and was told to try again
    fault      kind, ...                  the tormentor did something
    left       worker, code               a worker process ended
    noticed    line                       a line of a worker's log that no fault excuses
    ended      key, run, state, result    how a run stood in the store at the very end; a child has no key
    journal    run, gaps, epochs_fall     its journal, read as a whole
    intent     run, place, seq            one of its intents
    timer      run, stored_at             when one of its timers was consumed, by the store's clock
    booked     place, times               rows in the author's own table
    money      spent, reserved            of the budget of all runs, in millionths of a dollar
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

from torpor import clock

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Line = dict[str, Any]


class History:
    """The lines, in memory by what they are, and in a file if one is named. May be written from any thread."""

    def __init__(self, path: Path | None = None, lines: Iterable[Line] = ()) -> None:
        """Begin with lines, and with an empty file."""
        self._lock = threading.Lock()
        self._file = path.open("w", encoding="utf-8") if path is not None else None
        self._wall = clock.wall
        self.by_kind: dict[str, list[Line]] = {}
        for line in lines:
            self._keep(line)

    def add(self, what: str, **said: Any) -> None:
        """Write a line."""
        with self._lock:
            line = {"what": what, "at": self._wall(), **said}
            self._keep(line)
            if self._file is not None:
                self._file.write(json.dumps(line) + "\n")
                self._file.flush()

    def _keep(self, line: Line) -> None:
        self.by_kind.setdefault(line["what"], []).append(line)

    def of(self, what: str, **fits: Any) -> list[Line]:
        """Return the lines of a kind, those that have these values if any are named."""
        found = self.by_kind.get(what, [])
        return [line for line in found if all(line.get(name) == value for name, value in fits.items())]

    def count(self, what: str) -> int:
        """Return how many lines of a kind there are."""
        return len(self.by_kind.get(what, ()))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def read(path: Path) -> History:
    """Return a history that was kept."""
    return History(lines=map(json.loads, path.read_text("utf-8").splitlines()))
