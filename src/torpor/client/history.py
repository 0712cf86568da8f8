"""What people do to a run's history: fork, rewind, retry, prune."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from torpor.client.connected import Connected
from torpor.clock import micros
from torpor.engine import branching, retention
from torpor.engine.large import put_aside
from torpor.errors import NotFound
from torpor.store import values
from torpor.store.protocol import Lane

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from torpor.core.commit import Blob
    from torpor.engine.branching import Forked, Retried, Rewound
    from torpor.engine.queries.outlook import Outlook
    from torpor.store.history_rows import RetentionRow
    from torpor.store.protocol import Tx
    from torpor.store.rows import ProgramRow


class _NotGiven:
    """What `input` is when it was not said: None is an input too."""


_NOT_GIVEN = _NotGiven()


class Pruned(NamedTuple):
    """What was pruned, or would be: runs that ended, journals that were cut, entries of both, bytes (a dry run's)."""

    runs: int
    journals: int
    entries: int
    bytes: int


class History(Connected):
    """Fork, rewind, retry, prune."""

    async def outlook(self, run: str, *, at: int | None = None, verb: str = "fork") -> Outlook:
        """Return what a `fork` or a `rewind` to checkpoint `at` would mean: what cannot be undone, what stays behind.

        Raises what it would raise.
        """
        return await self.store.transact(branching.look, run, at, verb=verb, lane=Lane.READ)

    async def fork(
        self,
        run: str,
        *,
        at: int | None = None,
        by: str,
        title: str = "",
        input: Any = _NOT_GIVEN,  # noqa: A002 - the word that authors use
    ) -> Forked:
        """Copy a run at a checkpoint (an entry's number; the present one if not said) into a new run (G19).

        The source is not disturbed. `input` takes the place of the run's own, with `at=0`. Raises NotFound, Conflict
        (it has ended and `at` was not said; the checkpoint was pruned or is not kept), UsageError.
        """
        body: bytes | None = None
        blob: Blob | None = None
        if not isinstance(input, _NotGiven):
            body, blob = put_aside(values.encode(input, path="input"))
        return await self.store.transact(branching.fork, branching.Fork(run, at, by, title, body, blob))

    async def rewind(self, run: str, *, at: int, by: str) -> Rewound:
        """Put a run back to a checkpoint, on a new branch (G19). Whoever holds it is fenced.

        Raises NotFound, Conflict (it has ended, cancel was asked, the checkpoint was pruned or is not kept).
        """
        return await self.store.transact(branching.rewind, run, at, by=by)

    async def retry(self, run: str, *, by: str) -> Retried:
        """Start a failed run again at its checkpoint; what succeeded is used. Raises NotFound, Conflict."""
        return await self.store.transact(branching.retry, run, by=by)

    async def prune(
        self, *, program: str | None = None, older_than: timedelta | None = None, by: str = "", dry_run: bool = False
    ) -> Pruned:
        """Remove what is old: in bounded parts, each a transaction; a kill in between loses nothing, say it again.

        With `older_than` runs that ended so long ago; without, what the retention of each program says. `program` names
        one. With `dry_run` only counts. Raises NotFound for a program the store does not know.
        """
        programs, rules, now = await self.store.transact(_plan, program, lane=Lane.READ)
        given = {row.program: row for row in rules}
        runs = journals = entries = count = 0
        for row in programs:
            if older_than is not None:
                before, why = now - micros(older_than.total_seconds()), by or "a person"
            elif (kept := given.get(row.name)) is not None and kept.runs is not None:
                before, why = now - kept.runs, f"the retention of `{row.name}`"
            else:
                continue
            after: tuple[int, int] | None = retention.BEGINNING
            while after is not None:
                part = await self.store.transact(retention.prune_ended, row.id, before, why, after=after, dry=dry_run)
                runs, entries, count, after = runs + part.runs, entries + part.entries, count + part.bytes, part.after
        if older_than is None:
            place: int | None = 0
            while place is not None:
                part, again = await self.store.transact(retention.prune_open, rules, now=now, after=place, dry=dry_run)
                entries, count, journals = entries + part.entries, count + part.bytes, journals + part.runs - again
                place = None if part.after is None else part.after[1]
        return Pruned(runs, journals, entries, count)


def _plan(tx: Tx, program: str | None) -> tuple[Sequence[ProgramRow], list[RetentionRow], int]:
    programs = [row for row in tx.programs() if program in {None, row.name}]
    if program is not None and not programs:
        has = ", ".join(sorted({row.name for row in tx.programs()})) or "none yet"
        raise NotFound(f'no program named "{program}" (the store has: {has})', hint="torpor prune --dry-run")
    return programs, [row for row in tx.retention() if program in {None, row.program}], tx.now()
