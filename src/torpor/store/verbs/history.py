"""Verbs about checkpoints that can be returned to, copies of runs, and what is removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torpor.core.journal import Stored
    from torpor.store.history_rows import Emptying, ForkRow, PruneRow, RetentionRow


class HistoryVerbs(Protocol):
    """Checkpoints and branches. All but the first two are for runs whose row this transaction has locked."""

    def keep_inputs(self, inputs: Sequence[tuple[int, str]]) -> None:
        """Keep (run, key): the states of runs that have not checkpointed yet, as entry 0 of their journals."""

    def empty_checkpoints(self, kept: Sequence[Emptying]) -> None:
        """Empty the checkpoints of runs that are older than so many, entry 0 excepted.

        With `outcomes`, also what stands in rows (`core.checkpoint.told_in_rows`) of the turns that led to them. If only
        the present one is kept there is no whole one to be found, and these are the turns that led to the 20 before it.
        """

    def whole_checkpoints(self, run: int, *, limit: int) -> list[Stored]:
        """Return the newest entries of checkpoints that still carry their state, newest first, without their bodies."""

    def add_entries(self, run: int, entries: Sequence[Stored]) -> None:
        """Append entries of a run that nobody holds any more."""

    def put_fork(self, fork: ForkRow) -> None:
        """Write where a run came from."""

    def forks(self, ids: Sequence[int]) -> dict[int, ForkRow]:
        """Return where runs came from, those that are copies."""

    def forks_of(self, run: int, *, limit: int) -> list[int]:
        """Return the newest runs that were forked from a run."""

    def copy_rows(self, run: int, target: int, branch: int, counts: Mapping[str, int]) -> None:
        """Give `target` the rows that `run` had on `branch`: so many of each field."""

    def first_cut(self, run: int, branch: int) -> dict[str, int]:
        """Return for each field the least number that was cut by a rewind which left `branch` or a later one."""

    def cut_rows(self, run: int, branch: int, counts: Mapping[str, int]) -> None:
        """Take rows out of sight beyond so many of each field (0 of a field that is not named); `branch` is left."""

    def bring_back(self, run: int, branch: int, field: str, first: int, count: int) -> None:
        """Put rows `first` to `count` of a field back as they were on `branch`."""

    def drop_cut(self, run: int, below: int) -> None:
        """Forget rows that were cut by leaving a branch below this one."""

    def name_all(self, run: int) -> None:
        """Say that a run names every blob that its state, its journal and its rows name now."""


class RetentionVerbs(Protocol):
    """What is kept how long, and what is removed. A sweep takes bounded parts; a kill between two loses nothing."""

    def put_retention(self, rows: Sequence[RetentionRow]) -> None:
        """Write how long programs' layers are kept."""

    def retention(self) -> list[RetentionRow]:
        """Return how long programs' layers are kept."""

    def ended_runs(self, program: int, *, before: int, after: tuple[int, int], limit: int) -> list[tuple[int, int]]:
        """Return (ended at, run) of a program's runs that ended before a moment, in that order, above `after`."""

    def open_runs(self, programs: Sequence[int], *, after: int, limit: int) -> list[int]:
        """Return runs that have not ended, by number, above `after`."""

    def held_back(self, ids: Sequence[int]) -> set[int]:
        """Return the runs that still have something on its way."""

    def drop_of_runs(self, ids: Sequence[int], *, limit: int) -> tuple[int, bool]:
        """Remove rows of runs, at most `limit` of a table; when none is left, the runs.

        Return how many entries of journals went, and whether there is more.
        """

    def measure(self, ids: Sequence[int]) -> tuple[int, int]:
        """Return how many entries and how many bytes of bodies runs have."""

    def old_entries(self, run: int, *, before: int, below: int, limit: int) -> tuple[int, int, int]:
        """Look at the oldest entries of a run below `below`, at most `limit`.

        Return up to which number they are older than `before` (0: none is), how many these are, and their bytes.
        """

    def cut_journal(self, run: int, upto: int) -> None:
        """Remove the entries up to a number, entry 0 included."""

    def empty_old(self, run: int, *, before: int, below: int) -> None:
        """Empty the checkpoints of a run that are older than a moment and below `below`, entry 0 included."""

    def put_prune(self, row: PruneRow) -> None:
        """Say what was pruned of a run."""

    def prunes(self, ids: Sequence[int]) -> dict[int, PruneRow]:
        """Return what was pruned of runs."""

    def oldest_parts(self, *, after: int, limit: int) -> list[tuple[int, int | None]]:
        """Return (run, when the oldest part of its stream that is there was written), by run, above `after`.

        A run whose parts are all gone is among them, with None.
        """

    def old_parts(self, run: int, *, before: int, below: int, limit: int) -> tuple[int, int, int]:
        """Look at the oldest parts of a run's stream below `below`, at most `limit`; returns as `old_entries`."""

    def cut_stream(self, row: PruneRow) -> None:
        """Remove the parts of a run's stream up to a number, and say so. Its counter stays (G11)."""

    def stream_prunes(self, ids: Sequence[int]) -> dict[int, PruneRow]:
        """Return what was pruned of the streams of runs."""

    def old_slots(self, schedule: int, *, before: int, limit: int) -> list[int]:
        """Return the oldest slots of a schedule that ended before a moment; its newest is never among them."""

    def drop_slots(self, schedule: int, slots: Sequence[int]) -> None:
        """Remove slots of a schedule that this transaction has locked."""

    def forget_blobs(self, run: int) -> None:
        """Say no more that a run names blobs that nothing of it names."""
