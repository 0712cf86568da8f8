"""Verbs about lines: who holds a place, who waits for one; and about deadlines and traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torpor.store.rows import InLine, LineRow, PlaceRow


class LineVerbs(Protocol):
    """Lines, places, deadlines, traces."""

    def open_lines(self, wanted: Mapping[str, int]) -> dict[str, LineRow]:
        """Write lines that are not there, by name, set how many places each has, and return them locked."""

    def lock_line(self, line: int) -> LineRow:
        """Return a line, locked until the transaction ends: after the rows of its runs, never before."""

    def put_places(self, places: Sequence[PlaceRow]) -> None:
        """Write where runs stand in their lines, and stir the lines in which one waits for a place."""

    def queue_runs(self, ids: Sequence[int]) -> None:
        """Let runs that this transaction has locked wait for a place: asleep, without a moment, flagged as QUEUED."""

    def arrive(self, ids: Sequence[int]) -> None:
        """Let runs whose time has come wait for a place, and stir their lines."""

    def hold_places(self, ids: Sequence[int]) -> None:
        """Give runs a place. Under their line's lock."""

    def leave_lines(self, ids: Sequence[int]) -> None:
        """Take runs out of their lines and stir these."""

    def stirred_lines(self, *, limit: int) -> list[int]:
        """Return lines in which somebody may get a place."""

    def calm_line(self, line: int) -> None:
        """Say that nobody can get a place in a line now. Under its lock."""

    def queue(self, line: int, *, limit: int) -> list[int]:
        """Return the runs that wait for a place in a line, by priority, then by number."""

    def in_line(self, ids: Sequence[int], *, most: int) -> dict[int, InLine]:
        """Return where runs stand in their lines; of those in front at most `most` are counted."""

    def put_deadlines(self, deadlines: Sequence[tuple[int, int]]) -> None:
        """Write (run, moment), each once."""

    def due_deadlines(self, *, before: int, limit: int) -> list[int]:
        """Return runs whose deadline has passed, earliest first."""

    def next_deadline(self) -> int | None:
        """Return the earliest deadline."""

    def deadlines(self, ids: Sequence[int]) -> dict[int, int]:
        """Return the deadlines of runs that have one."""

    def drop_deadlines(self, ids: Sequence[int]) -> None:
        """Remove deadlines."""

    def put_traces(self, parents: Sequence[tuple[int, str]]) -> None:
        """Write (run, traceparent), each once: the first stays."""

    def traces(self, ids: Sequence[int]) -> dict[int, str]:
        """Return the traceparents of runs that have one."""
