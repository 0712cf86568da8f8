"""Verbs on PostgreSQL: programs, tenants, runs, the hot path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.core.run import Flag, State
from torpor.store import texts
from torpor.store.batches import once_each
from torpor.store.postgres import hot, step
from torpor.store.postgres.arrays import ByteaArray, TextArray, longs
from torpor.store.postgres.begun import Begun
from torpor.store.postgres.hot import RUN_COLUMNS, run_row
from torpor.store.rows import Left, ProgramRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.store.rows import Append, Claim, Claimed, Leave, NewRun, RunChange, RunFilter, RunRow

_LATEST = 2**63 - 1
_INTERN_PROGRAMS = """INSERT INTO programs (name, version, source, tag)
    SELECT DISTINCT ON (name, version) *, %(tag)s::text
    FROM unnest(%(names)s::text[], %(versions)s::int[], %(sources)s::text[])
    AS p(name, version, source) ORDER BY name, version
    ON CONFLICT (name, version, tag) DO UPDATE SET source = excluded.source WHERE programs.source <> excluded.source"""
_INTERN_TENANTS = """INSERT INTO tenants (name) SELECT DISTINCT name FROM unnest(%(names)s::text[]) AS t(name)
    WHERE NOT EXISTS (SELECT 1 FROM tenants k WHERE k.name = t.name) ORDER BY name ON CONFLICT DO NOTHING"""
_INSERT_RUNS = f"""WITH {hot.MOMENT},
asked AS MATERIALIZED (SELECT nextval('runs_id_seq') AS id, a.* FROM unnest(%(programs)s::int[], %(tenants)s::int[],
    %(prios)s::smallint[], %(parents)s::bigint[], %(dues)s::bigint[], %(bodies)s::bytea[])
    WITH ORDINALITY AS a(program, tenant, prio, parent, due_at, body, n)),
made AS (INSERT INTO runs (id, created_at, due_at, parent, tenant, program, state, prio)
    SELECT id, now, coalesce(due_at, now), parent, tenant, program, CASE WHEN due_at IS NULL THEN 1 ELSE 2 END, prio
    FROM asked, moment),
first AS (INSERT INTO states (run_id, at, seq, turn, body) SELECT id, now, 0, 1, body FROM asked, moment)
SELECT id, now FROM asked, moment ORDER BY n"""
_CLAIM_KEYS = """INSERT INTO run_keys (digest, run_id)
    SELECT * FROM unnest(%(digests)s::bytea[], %(runs)s::bigint[]) AS k(digest, run_id) ORDER BY digest, run_id
    ON CONFLICT DO NOTHING"""
_FREE_KEYS = """DELETE FROM run_keys k USING unnest(%(digests)s::bytea[], %(runs)s::bigint[]) AS f(digest, run_id)
    WHERE k.digest = f.digest AND k.run_id = f.run_id"""
_DROP_RUNS = """WITH gone AS (DELETE FROM runs WHERE id = ANY(%(ids)s::bigint[])),
    named AS (DELETE FROM blob_runs WHERE run_id = ANY(%(ids)s::bigint[]))
    DELETE FROM states WHERE run_id = ANY(%(ids)s::bigint[])"""
_LIST_RUNS = f"""SELECT {RUN_COLUMNS} FROM runs WHERE id < %(before)s
    AND (%(any)s = 1 OR program = ANY(%(programs)s::int[])) ORDER BY id DESC LIMIT %(limit)s"""
_LIST_RUNS_IN = f"""SELECT {RUN_COLUMNS.replace("id,", "r.id,", 1).replace(" state,", " r.state,")}
    FROM unnest(%(states)s::smallint[]) AS w(wanted), LATERAL (SELECT * FROM runs WHERE state = w.wanted
    AND id < %(before)s AND (%(any)s = 1 OR program = ANY(%(programs)s::int[])) ORDER BY id DESC LIMIT %(limit)s) r
    ORDER BY r.id DESC LIMIT %(limit)s"""
_COUNT_RUNS = """SELECT wanted, (SELECT count(*) FROM (SELECT 1 FROM runs WHERE state = w.wanted LIMIT %(most)s) r)
    FROM unnest(%(states)s::smallint[]) AS w(wanted)"""
_CHANGE = """UPDATE runs r SET state = coalesce(c.state, r.state), due_at = coalesce(c.due_at, r.due_at),
    head = coalesce(c.head, r.head), program = coalesce(c.program, r.program), flags = coalesce(c.flags, r.flags),
    inbox = r.inbox + c.inbox, takeovers = r.takeovers + c.takeovers, stalls = coalesce(c.stalls, r.stalls),
    epoch = coalesce(c.epoch, r.epoch), branch = coalesce(c.branch, r.branch)
    FROM (SELECT * FROM unnest(%(ids)s::bigint[], %(states)s::smallint[], %(dues)s::bigint[], %(heads)s::int[],
    %(programs)s::int[], %(flags)s::smallint[], %(inboxes)s::int[], %(takeovers)s::smallint[], %(stalls)s::smallint[],
    %(epochs)s::int[], %(branches)s::int[])
    AS c(id, state, due_at, head, program, flags, inbox, takeovers, stalls, epoch, branch)) c WHERE r.id = c.id"""


class RunVerbs(Begun):
    """Programs, tenants, runs, and how a run is taken, moved on and put away."""

    def intern_programs(self, programs: Sequence[tuple[str, int, str]], *, tag: str = "") -> list[int]:
        """Return the numbers of programs, writing new ones."""
        names, versions, sources = [p[0] for p in programs], [p[1] for p in programs], [p[2] for p in programs]
        texts.check((*names, *sources, tag), "a program's name or source")
        self._tell(
            _INTERN_PROGRAMS, names=TextArray(names), versions=longs(versions), sources=TextArray(sources), tag=tag
        )
        known = {(row.name, row.version): row.id for row in self.programs() if row.tag == tag}
        return [known[name, version] for name, version, _ in programs]

    def programs(self) -> list[ProgramRow]:
        """Return all programs."""
        return [
            ProgramRow(*row) for row in self._ask("SELECT id, name, version, source, tag FROM programs ORDER BY id")
        ]

    def intern_tenants(self, names: Sequence[str]) -> list[int]:
        """Return the numbers of tenants, writing new ones."""
        texts.check(names, "a tenant's name")
        self._tell(_INTERN_TENANTS, names=TextArray(names))
        known = dict(
            self._ask("SELECT name, id FROM tenants WHERE name = ANY(%(names)s::text[])", names=TextArray(names))
        )
        return [int(known[name]) for name in names]

    def insert_runs(self, runs: Sequence[NewRun]) -> list[int]:
        """Insert runs and their first states."""
        rows = self._ask(
            _INSERT_RUNS,
            now=self._now,
            programs=longs([run.program for run in runs]),
            tenants=longs([run.tenant for run in runs]),
            prios=longs([run.priority for run in runs]),
            parents=longs([run.parent for run in runs]),
            dues=longs([run.due_at for run in runs]),
            bodies=ByteaArray([run.body for run in runs]),
        )
        self._now = rows[0][1] if rows else self._now
        return [row[0] for row in rows]

    def claim_keys(self, keys: Sequence[tuple[bytes, int]]) -> dict[bytes, int]:
        """Bind keys that are free, in order, so that two batches never wait for each other; return what each is bound to."""
        digests = ByteaArray([key[0] for key in keys])
        self._tell(_CLAIM_KEYS, digests=digests, runs=longs([key[1] for key in keys]))
        return dict(self._ask("SELECT digest, run_id FROM run_keys WHERE digest = ANY(%(d)s::bytea[])", d=digests))

    def free_keys(self, keys: Sequence[tuple[bytes, int]]) -> None:
        """Unbind keys."""
        self._tell(_FREE_KEYS, digests=ByteaArray([key[0] for key in keys]), runs=longs([key[1] for key in keys]))

    def drop_runs(self, ids: Sequence[int]) -> None:
        """Remove runs that lost their key."""
        self._tell(_DROP_RUNS, ids=longs(ids))

    def get_runs(self, ids: Sequence[int], *, lock: bool = False, skip_locked: bool = False) -> dict[int, RunRow]:
        """Return runs; locked in order of number."""
        how = ("FOR UPDATE SKIP LOCKED" if skip_locked else "FOR UPDATE") if lock else ""
        rows = self._ask(
            f"SELECT {RUN_COLUMNS} FROM runs WHERE id = ANY(%(ids)s::bigint[]) ORDER BY id {how}", ids=longs(ids)
        )
        return {row[0]: run_row(row) for row in rows}

    def list_runs(self, wanted: RunFilter) -> list[RunRow]:
        """Return runs for people, newest first."""
        rows = self._ask(
            _LIST_RUNS if wanted.states is None else _LIST_RUNS_IN,
            states=longs(set(wanted.states or ())),
            before=_LATEST if wanted.before is None else wanted.before,
            any=int(wanted.programs is None),
            programs=longs(wanted.programs or ()),
            limit=wanted.limit,
        )
        return [run_row(row) for row in rows]

    def count_runs(self, states: Sequence[State], *, most: int) -> dict[State, int]:
        """Count runs by state, capped."""
        return {State(row[0]): row[1] for row in self._ask(_COUNT_RUNS, states=longs(states), most=most)}

    def change_runs(self, changes: Sequence[RunChange]) -> None:
        """Apply changes."""
        once_each([change.id for change in changes])
        self._tell(
            _CHANGE,
            ids=longs([c.id for c in changes]),
            states=longs([c.state for c in changes]),
            dues=longs([c.due_at for c in changes]),
            heads=longs([c.head for c in changes]),
            programs=longs([c.program for c in changes]),
            flags=longs([c.flags for c in changes]),
            inboxes=longs([c.inbox for c in changes]),
            takeovers=longs([c.takeovers for c in changes]),
            stalls=longs([c.stalls for c in changes]),
            epochs=longs([c.epoch for c in changes]),
            branches=longs([c.branch for c in changes]),
        )

    def claim(self, wanted: Claim) -> list[Claimed]:
        """Make ready runs running."""
        found, now = hot.claimed(self._ask(hot.CLAIM, **hot.claim_params(wanted, self._now)), wanted)
        self._now = self._now or now
        return found

    def append(self, rows: Sequence[Append], *, lease_micros: int) -> dict[int, Flag]:
        """Append under the fence."""
        if len(rows) == 1 and len(rows[0].entries) == 1 and not rows[0].taken and self._exchange.first_alone:
            passed = self._exchange.alone_with(step.append, rows[0], lease_micros)
            answer = [] if passed is None else [(rows[0].run_id, *passed)]
        elif len(rows) == 1:
            statement = hot.APPEND_ONE_TAKING if rows[0].taken else hot.APPEND_ONE
            answer = self._ask(statement, lease=lease_micros, **hot.append_one_params(rows[0], self._now))
        else:
            statement = hot.APPEND_TAKING if any(row.taken for row in rows) else hot.APPEND
            answer = self._ask(statement, lease=lease_micros, **hot.append_params(rows, self._now))
        self._now = answer[0][2] if answer else self._now
        return {run_id: Flag(flags) if flags else Flag.NONE for run_id, flags, _ in answer}

    def leave(self, rows: Sequence[Leave]) -> dict[int, Left]:
        """Append under the fence and end the stretch."""
        answer = self._ask(hot.LEAVE, **hot.leave_params(rows, self._now))
        self._now = answer[0][3] if answer else self._now
        return {run_id: Left(State(state), Flag(flags)) for run_id, state, flags, _ in answer}

    def fence_order(self, leaving: Sequence[int], going: Sequence[int]) -> None:
        """Lock runs, then leases, in order. Told, not asked: it travels with the `append` that follows."""
        self._tell(hot.FENCE_ORDER, leaving=longs(leaving), going=longs(going))
