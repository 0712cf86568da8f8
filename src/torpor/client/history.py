"""What people do to a run's history: fork, rewind, retry, prune."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from torpor.client.connected import Connected
from torpor.clock import micros
from torpor.engine import branching, retention
from torpor.engine.large import put_aside
from torpor.errors import NotFound, UsageError
from torpor.sdk.keeping import LAYERS
from torpor.store import values
from torpor.store.history_rows import RetentionRow
from torpor.store.protocol import Lane

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from torpor.core.commit import Blob
    from torpor.engine.branching import Forked, Retried, Rewound
    from torpor.engine.queries.outlook import Outlook
    from torpor.store.protocol import Store, Tx
    from torpor.store.rows import ProgramRow


class _NotGiven:
    """What `input` is when it was not said: None is an input too."""


_NOT_GIVEN = _NotGiven()


class Pruned(NamedTuple):
    """What was pruned, or would be: runs that ended, journals that were cut, entries of both, bytes (a dry run's).

    `checkpoints` that can no longer be returned to, `streams` that were cut and their `parts`, `slots` of schedules.
    """

    runs: int = 0
    journals: int = 0
    entries: int = 0
    bytes: int = 0
    checkpoints: int = 0
    streams: int = 0
    parts: int = 0
    slots: int = 0


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
        self,
        *,
        program: str | None = None,
        older_than: timedelta | None = None,
        layer: str | None = None,
        by: str = "",
        dry_run: bool = False,
    ) -> Pruned:
        """Remove what is old: in bounded parts, each a transaction; a kill in between loses nothing, say it again.

        Without `older_than` what the retention of each program says, of one `layer` only if it is named: `runs`, `journal`,
        `checkpoints`, `stream` or `slots`. With `older_than` what is so old of that layer (`runs` if none is named) whatever
        programs say. `program` names one. With `dry_run` only counts. Raises NotFound for a program the store does not
        know, UsageError for a layer that there is not and a negative age.
        """
        if layer is not None and layer not in LAYERS:
            raise UsageError(f"there is no layer {layer!r}", hint=f"one of {', '.join(LAYERS)}")
        age = None if older_than is None else micros(older_than.total_seconds())
        if age is not None and age < 0:
            raise UsageError(f"older_than={older_than!r} is a negative age", hint="older_than=days(30)")
        programs, kept, now = await self.store.transact(_plan, program, lane=Lane.READ)
        if age is None:
            wanted = LAYERS if layer is None else (layer,)
            rules = [RetentionRow(row.program, **{name: getattr(row, name) for name in wanted}) for row in kept]
        else:
            rules = [RetentionRow(row.name, **{layer or "runs": age}) for row in programs]
        return await _Pruning(self.store, rules, now, "" if age is None else by or "a person", dry_run).all(programs)


class _Pruning:
    """One prune: every layer that the rules name, part after part. `why` is said in the place of a retention."""

    def __init__(self, store: Store, rules: Sequence[RetentionRow], now: int, why: str, dry: bool) -> None:  # noqa: FBT001
        self._store = store
        self._rules = {row.program: row for row in rules}
        self._now = now
        self._why = why
        self._dry = dry

    async def all(self, programs: Sequence[ProgramRow]) -> Pruned:
        gone = Pruned()
        for row in programs:
            gone = await self._ended(gone, row)
        return await self._slots(await self._streams(await self._open(gone)))

    async def _ended(self, gone: Pruned, program: ProgramRow) -> Pruned:
        rule = self._rules.get(program.name)
        if rule is None or rule.runs is None:
            return gone
        before, why = self._now - rule.runs, self._why or retention.kept_by(rule)
        after: tuple[int, int] | None = retention.BEGINNING
        while after is not None:
            part = await self._store.transact(
                retention.prune_ended, program.id, before, why, after=after, dry=self._dry
            )
            gone = gone._replace(
                runs=gone.runs + part.runs, entries=gone.entries + part.entries, bytes=gone.bytes + part.bytes
            )
            after = part.after
        return gone

    async def _open(self, gone: Pruned) -> Pruned:
        place: int | None = 0
        while place is not None:
            part, again = await self._store.transact(
                retention.prune_open, self._given, now=self._now, after=place, why=self._why, dry=self._dry
            )
            gone = gone._replace(
                journals=gone.journals + part.runs - again,
                entries=gone.entries + part.entries,
                bytes=gone.bytes + part.bytes,
                checkpoints=gone.checkpoints + part.checkpoints,
            )
            place = None if part.after is None else part.after[1]
        return gone

    async def _streams(self, gone: Pruned) -> Pruned:
        place: int | None = 0
        while place is not None:
            part = await self._store.transact(
                retention.prune_streams, self._given, now=self._now, after=place, why=self._why, dry=self._dry
            )
            gone = gone._replace(
                streams=gone.streams + part.runs, parts=gone.parts + part.entries, bytes=gone.bytes + part.bytes
            )
            place = None if part.after is None else part.after[1]
        return gone

    async def _slots(self, gone: Pruned) -> Pruned:
        place: str | None = ""
        while place is not None:
            count, place = await self._store.transact(
                retention.prune_slots, self._given, now=self._now, after=place, dry=self._dry
            )
            gone = gone._replace(slots=gone.slots + count)
        return gone

    @property
    def _given(self) -> list[RetentionRow]:
        return list(self._rules.values())


def _plan(tx: Tx, program: str | None) -> tuple[Sequence[ProgramRow], list[RetentionRow], int]:
    programs = [row for row in tx.programs() if program in {None, row.name}]
    if program is not None and not programs:
        has = ", ".join(sorted({row.name for row in tx.programs()})) or "none yet"
        raise NotFound(f'no program named "{program}" (the store has: {has})', hint="torpor prune --dry-run")
    return programs, [row for row in tx.retention() if program in {None, row.program}], tx.now()
